#include "model/gpt.h"

#include <fmt/format.h>

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

ModelConfig config_of(const std::string& name) {
  if (name == "record") return test::tiny_record();
  return name == "switches" ? test::tiny_switches() : test::tiny_speedrun();
}

class AgainstPython : public testing::TestWithParam<std::string> {
 protected:
  AgainstPython()
      : config(config_of(GetParam())),
        fixture(test::load_fixture(fmt::format("model_loss_{}.safetensors", GetParam()))),
        inputs(fixture.at("tokens").slice(1, 0, -1)),
        targets(fixture.at("tokens").slice(1, 1)) {}

  ParameterTable load(at::ScalarType dtype) const {
    auto table = test::make_parameters(config, dtype, at::kCPU);
    for (const auto& row : table.rows()) {
      row.value.detach().copy_(fixture.at("weight." + row.name));
    }
    return table;
  }

  // QAT belongs to the case of the switches alone.
  at::Tensor train(Gpt& model) const {
    model.set_fake_quant(GetParam() == "switches");
    model.cast_weights();
    const auto loss = model.loss(inputs, targets, {.auxiliary_losses = true});
    loss.backward();
    model.collect_gradients();
    return loss;
  }

  ModelConfig config;
  test::Tensors fixture;
  at::Tensor inputs, targets;
};

TEST_P(AgainstPython, TheFixtureHasTheSameParameters) {
  const auto table = load(at::kDouble);
  std::size_t weights = 0;
  for (const auto& [name, value] : fixture) weights += name.starts_with("weight.");
  EXPECT_EQ(weights, table.rows().size());
}

TEST_P(AgainstPython, LossAndEveryGradientAgree) {
  const auto table = load(at::kDouble);
  Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
  // Both in fp64, in other orders: 1e-16 times the depth of the network.
  EXPECT_TRUE(test::is_close(train(model), fixture.at("loss"), 1e-12, 0));
  for (const auto& row : table.rows()) {
    const auto expected = fixture.find("gradient." + row.name);
    if (expected == fixture.end()) {
      EXPECT_FALSE(row.value.grad().defined()) << row.name;
      continue;
    }
    ASSERT_TRUE(row.value.grad().defined()) << row.name;
    // The file holds the gradients rounded to fp32, 2^-24 relative.
    const double largest = expected->second.abs().max().item<double>();
    EXPECT_TRUE(test::is_close(row.value.grad(), expected->second, 1e-7, 1e-11 * largest))
        << row.name;
  }
}

TEST_P(AgainstPython, SinglePrecisionAgreesToItsRounding) {
  const auto table = load(at::kFloat);
  Gpt model(test::plan_of(config), table, {});
  const auto loss = train(model);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_TRUE(test::is_close(loss, fixture.at("loss"), 1e-5, 0));
  for (const auto& row : table.rows()) {
    const auto expected = fixture.find("gradient." + row.name);
    if (expected == fixture.end()) continue;
    // Some hundred fp32 operations, each 2^-24 of the values it adds up.
    const double largest = expected->second.abs().max().item<double>();
    EXPECT_TRUE(test::is_close(row.value.grad(), expected->second, 1e-3, 1e-4 * largest))
        << row.name;
  }
}

TEST_P(AgainstPython, TokenLossesOmitTrainingsTerms) {
  const auto table = load(at::kDouble);
  const Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
  const auto each = model.token_losses(inputs, targets);
  EXPECT_FALSE(each.requires_grad());
  EXPECT_TRUE(test::is_close(each, fixture.at("token_losses"), 1e-11, 1e-12));
  EXPECT_TRUE(test::is_close(each.mean(), model.loss(inputs, targets, {}), 1e-13, 0));
}

TEST_P(AgainstPython, LaterTokensChangeNothingEarlier) {
  const auto table = load(at::kDouble);
  const Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
  const auto before = model.token_losses(inputs, targets);
  auto changed = inputs.clone();
  changed.select(1, 6).add_(1).remainder_(config.vocab_size);
  const auto after = model.token_losses(changed, targets);
  EXPECT_TRUE(test::is_close(after.narrow(1, 0, 6), before.narrow(1, 0, 6), 0, 1e-12));
  EXPECT_FALSE(test::is_close(after.select(1, 6), before.select(1, 6), 0, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(Models, AgainstPython, testing::Values("record", "switches", "speedrun"),
                         [](const auto& name) { return name.param; });

// Positions are relative; and neither attention nor smear, its gated kind or bigrams read a token
// of another document.
class OfDocuments : public testing::TestWithParam<ModelConfig> {};

TEST_P(OfDocuments, ARowLosesWhatEachDocumentLosesAlone) {
  constexpr std::int64_t kBos = 3;
  const auto& config = GetParam();
  const auto tokens = test::integers({1, 31}, config.vocab_size, 2);
  tokens.index_fill_(1, at::tensor({7, 8}, at::kLong), kBos);
  const auto inputs = tokens.slice(1, 0, -1), targets = tokens.slice(1, 1);
  const auto documents =
      documents_at(at::tensor({0, 7, 7, 8, 30, 30}, at::kInt), 1, 30, /*longest=*/22);
  const auto gradients = [&](const auto& loss_of) {
    const auto table = test::random_parameters(config, at::kDouble, 1);
    Gpt model(test::plan_of(config), table, {.compute = at::kDouble, .bos_id = kBos});
    const at::Tensor loss = loss_of(model);
    loss.backward();
    model.collect_gradients();
    std::vector<at::Tensor> found{loss.detach()};
    for (const auto& row : table.rows())
      if (row.value.grad().defined()) found.push_back(row.value.grad());
    return found;
  };
  const auto together =
      gradients([&](const Gpt& model) { return model.loss(inputs, targets, {}, documents); });
  const auto alone = gradients([&](const Gpt& model) {
    at::Tensor sum;
    for (const auto& [begin, length] : {std::pair{0, 7}, {7, 1}, {8, 22}}) {
      const auto loss =
          model.loss(inputs.narrow(1, begin, length), targets.narrow(1, begin, length), {});
      sum = sum.defined() ? sum + loss * length / 30.0 : loss * length / 30.0;
    }
    return sum;
  });
  for (std::size_t i = 0; i < together.size(); ++i) {
    const double largest = alone[i].abs().max().item<double>();
    EXPECT_TRUE(test::is_close(together[i], alone[i], 1e-10, 1e-12 * largest)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OfDocuments,
                         testing::Values(test::tiny_speedrun(), test::tiny_record(),
                                         test::tiny_switches(), test::tiny_gated_smear()));

// Two elements of every parameter, by central differences in fp64.
TEST(Gpt, GradientsAgreeWithDifferencesOfTheLoss) {
  constexpr double kStep = 1e-5;
  auto record = test::tiny_record(), switches = test::tiny_switches();
  record.num_layers = switches.num_layers = 3;
  switches.attention_window = {2, 0, 4};
  record.ve_layers = {1, 2};
  // DTG's gate sees a detached input: autograd leaves out a part of the slope on purpose.
  switches.dtg_enabled = false;
  auto gated = test::tiny_gated_smear();
  gated.num_layers = 2;
  gated.ve_layers = {1};
  for (const auto& config : {record, switches, test::tiny_speedrun(), gated}) {
    const auto table = test::random_parameters(config, at::kDouble, 1);
    Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
    const auto tokens = test::integers({2, 9}, config.vocab_size, 2);
    const auto inputs = tokens.slice(1, 0, -1), targets = tokens.slice(1, 1);
    const ForwardMode mode{.auxiliary_losses = true};
    model.loss(inputs, targets, mode).backward();
    model.collect_gradients();
    const at::NoGradGuard no_grad;
    const auto loss = [&] {
      model.set_fake_quant(false);
      model.cast_weights();
      return model.loss(inputs, targets, mode).item<double>();
    };
    for (const auto& row : table.rows()) {
      if (!row.value.grad().defined()) continue;
      auto values = row.value.detach().view(-1);
      const auto gradient = row.value.grad().reshape(-1);
      for (const std::int64_t at : {std::int64_t{0}, values.numel() - 1}) {
        const double value = values[at].item<double>();
        values[at] = value + kStep;
        const double above = loss();
        values[at] = value - kStep;
        const double below = loss();
        values[at] = value;
        // h² of the third derivative and 1e-16/h of rounding: 1e-9 either way.
        EXPECT_NEAR(gradient[at].item<double>(), (above - below) / (2 * kStep), 1e-7)
            << row.name << " element " << at;
      }
    }
  }
}

struct Tokens {
  at::Tensor inputs, targets;
};

Tokens random_tokens(const ModelConfig& config, std::int64_t rows, std::int64_t length) {
  const auto tokens = test::integers({rows, length + 1}, config.vocab_size, 3);
  return {tokens.slice(1, 0, -1), tokens.slice(1, 1)};
}

TEST(Gpt, ComputesInHalfPrecisionFromFullWeights) {
  const auto config = test::tiny_record();
  const auto fine = test::random_parameters(config, at::kFloat, 4);
  auto half = test::make_parameters(config, at::kBFloat16, at::kCPU);
  for (const auto& row : half.rows()) row.value.detach().copy_(fine[row.name]);
  const auto [inputs, targets] = random_tokens(config, 2, 16);
  const auto expected = Gpt(test::plan_of(config), fine, {}).loss(inputs, targets, {});
  const auto loss =
      Gpt(test::plan_of(config), half, {.compute = at::kBFloat16}).loss(inputs, targets, {});
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  // bf16 rounds each activation by 2^-8; after five blocks some per cent of a logit.
  EXPECT_TRUE(test::is_close(loss, expected, 0.02, 0));
  loss.backward();
  EXPECT_EQ(half["tok_emb.weight"].grad().scalar_type(), at::kBFloat16);
  EXPECT_EQ(half["qo_bank"].grad().scalar_type(), at::kFloat);
}

TEST(Gpt, WithoutGradientsToComputeItAllocatesNoneAndComputesTheSame) {
  for (const char* name : {"record", "switches", "speedrun"}) {
    const auto config = config_of(name);
    const auto trained = test::random_parameters(config, at::kFloat, 5);
    const auto table = test::random_parameters(config, at::kFloat, 5);
    for (auto row : table.rows()) row.value.requires_grad_(false);
    const Gpt model(test::plan_of(config), table, {});
    for (const auto& row : table.rows()) EXPECT_FALSE(row.value.grad().defined()) << row.name;
    const auto [inputs, targets] = random_tokens(config, 2, 8);
    const auto losses = Gpt(test::plan_of(config), trained, {}).token_losses(inputs, targets);
    EXPECT_TRUE(model.token_losses(inputs, targets).equal(losses)) << name;
  }
}

TEST(Gpt, MultiTokenHeadsCountInTrainingOnly) {
  auto config = test::tiny_switches();
  const auto table = test::random_parameters(config, at::kFloat, 5);
  const auto [inputs, targets] = random_tokens(config, 2, 8);
  const auto loss = [&](ForwardMode mode) {
    return Gpt(test::plan_of(config), table, {}).loss(inputs, targets, mode).item<double>();
  };
  const double plain = loss({});
  EXPECT_GT(loss({.auxiliary_losses = true}), plain);
  config.mtp_loss_weight = 0;
  EXPECT_EQ(loss({.auxiliary_losses = true}), plain);
}

TEST(Gpt, TheReferencesQatSkipsTheBanks) {
  const auto config = test::tiny_switches();
  const auto [inputs, targets] = random_tokens(config, 2, 8);
  const auto loss = [&](const ParameterTable& table, bool quirks, bool fake_quant) {
    Gpt model(test::plan_of(config), table, {.record_quirks = quirks});
    model.set_fake_quant(fake_quant);
    model.cast_weights();
    return model.loss(inputs, targets, {.auxiliary_losses = true}).item<double>();
  };
  auto table = test::random_parameters(config, at::kFloat, 6);
  EXPECT_NE(loss(table, false, true), loss(table, false, false));
  EXPECT_NE(loss(table, true, true), loss(table, true, false));
  EXPECT_NE(loss(table, true, true), loss(table, false, true));
  // With the rounded projections and heads at zero, rounding changes nothing.
  for (const auto& row : table.rows()) {
    const bool projection = row.name.find("proj.weight") != std::string::npos;
    const bool rounded = projection || row.update == Update::head;
    if (rounded) row.value.detach().zero_();
  }
  EXPECT_EQ(loss(table, true, true), loss(table, true, false));
}

TEST(Gpt, QatDoesNotRoundATiedHead) {
  auto config = test::tiny_record();
  config.bigram_vocab_size = 0;
  config.ve_enabled = false;
  const auto table = test::random_parameters(config, at::kFloat, 7);
  const auto [inputs, targets] = random_tokens(config, 2, 8);
  Gpt model(test::plan_of(config), table, {.record_quirks = true});
  const auto plain = model.loss(inputs, targets, {.auxiliary_losses = true});
  model.set_fake_quant(true);
  model.cast_weights();
  EXPECT_TRUE(test::is_same(model.loss(inputs, targets, {.auxiliary_losses = true}), plain));
}

// The speedrun reads no token before the own one but by attention: so a token is read no farther on
// than all windows reach together.
TEST(Gpt, EveryBlockSeesItsWindowAlone) {
  auto config = test::tiny_speedrun();
  constexpr std::int64_t kLength = 20, kChanged = 6;
  const auto [inputs, targets] = random_tokens(config, 1, kLength);
  const auto table = test::random_parameters(config, at::kDouble, 8);
  auto changed = inputs.clone();
  changed.select(1, kChanged).add_(1).remainder_(config.vocab_size);
  // → how many tokens behind the changed one have another loss, but for rounding.
  const auto reach = [&](const std::vector<std::int64_t>& windows) {
    config.attention_window = windows;
    const Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
    const auto differs =
        (model.token_losses(changed, targets) - model.token_losses(inputs, targets))
            .abs()
            .gt(1e-12)
            .flatten();
    EXPECT_FALSE(differs.narrow(0, 0, kChanged).any().item<bool>());
    return differs.nonzero().max().item<std::int64_t>() - kChanged;
  };
  EXPECT_EQ(reach({0}), kLength - 1 - kChanged);
  EXPECT_EQ(reach({1}), 0);
  EXPECT_EQ(reach({3}), 3 * 2);
  EXPECT_EQ(reach({1, 5, 3}), 4 + 2);
  EXPECT_EQ(reach({1, 0, 1}), kLength - 1 - kChanged);
}

TEST(Gpt, AWindowOfTheWholeRowChangesNoBit) {
  for (auto config : {test::tiny_record(), test::tiny_switches()}) {
    const auto [inputs, targets] = random_tokens(config, 2, 12);
    const auto table = test::random_parameters(config, at::kFloat, 8);
    const auto losses = [&](std::int64_t window) {
      config.attention_window = {window};
      return Gpt(test::plan_of(config), table, {}).token_losses(inputs, targets);
    };
    EXPECT_TRUE(test::is_same(losses(12), losses(0)));
    EXPECT_FALSE(test::is_close(losses(11), losses(0), 0, 1e-6));
  }
}

TEST(Gpt, LongSequencesIncreaseTheRopeBase) {
  // Beyond 1024 tokens the base depends on the row's length, so even the first tokens' losses do.
  auto config = test::tiny_speedrun();
  const auto table = test::random_parameters(config, at::kDouble, 8);
  const Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
  const auto [inputs, targets] = random_tokens(config, 1, 1536);
  const auto head = [&](std::int64_t length) {
    return model.token_losses(inputs.narrow(1, 0, length), targets.narrow(1, 0, length))
        .narrow(1, 0, 512);
  };
  EXPECT_TRUE(test::is_close(head(1024), head(512), 0, 1e-12));
  EXPECT_FALSE(test::is_close(head(1536), head(512), 0, 1e-6));
  auto stretched = config;
  stretched.rope_base = 1e4 * std::pow(1.5, 8.0 / 6.0);
  const Gpt explicit_base(test::plan_of(stretched), table, {.compute = at::kDouble});
  const auto expected =
      explicit_base.token_losses(inputs.narrow(1, 0, 512), targets.narrow(1, 0, 512));
  EXPECT_TRUE(test::is_close(head(1536), expected, 0, 1e-11));
}

// The row of 512 tokens has the base of training's rows, a longer row its own.
TEST(Gpt, RowsUpToThoseOfTrainingHaveOneRopeBase) {
  const auto config = test::tiny_speedrun();
  const auto table = test::random_parameters(config, at::kDouble, 8);
  const Gpt model(test::plan_of(config), table,
                  {.compute = at::kDouble, .rope = {.longest = 1536}}),
      by_row(test::plan_of(config), table, {.compute = at::kDouble});
  const auto [inputs, targets] = random_tokens(config, 1, 2048);
  const auto head = [&](const Gpt& gpt, std::int64_t length, std::int64_t context = 0) {
    return gpt
        .token_losses(inputs.narrow(1, 0, length), targets.narrow(1, 0, length), {}, {}, context)
        .narrow(1, 0, 300);
  };
  EXPECT_TRUE(test::is_close(head(model, 512), head(model, 1536), 0, 1e-11));
  EXPECT_TRUE(test::is_close(head(model, 512), head(by_row, 1536), 0, 1e-11));
  EXPECT_TRUE(test::is_close(head(model, 2048), head(by_row, 2048), 0, 1e-11));
  EXPECT_TRUE(test::is_close(head(model, 512, 2048), head(by_row, 2048), 0, 1e-11));
  EXPECT_FALSE(test::is_close(head(model, 2048), head(model, 512), 0, 1e-6));
  // Documents span less than their row.
  auto starts = at::zeros({1, 1536}, at::kBool);
  for (const int begin : {0, 300, 600, 900, 1200}) starts[0][begin] = true;
  const auto in_documents = model.token_losses(
      inputs.narrow(1, 0, 1536), targets.narrow(1, 0, 1536), {}, documents_in(starts, at::kCPU));
  EXPECT_TRUE(test::is_close(in_documents.narrow(1, 0, 300), head(model, 512), 0, 1e-11));
}

}  // namespace
}  // namespace tg
