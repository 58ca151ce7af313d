#include "model/recompute.h"

#include <fmt/format.h>

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

using Gradients = std::map<std::string, at::Tensor>;

struct Case {
  const char* name;
  ModelConfig config;
};

std::vector<Case> cases() {
  auto gated_record = test::tiny_record();
  gated_record.dtg_enabled = true;
  gated_record.mtp_num_heads = 1;
  gated_record.value_residual = ValueResidual::on;
  auto deep_speedrun = test::tiny_speedrun();
  deep_speedrun.num_layers = 6;
  deep_speedrun.unet_skips = true;
  deep_speedrun.mtp_num_heads = 2;
  return {{.name = "record", .config = test::tiny_record()},
          {.name = "speedrun", .config = test::tiny_speedrun()},
          {.name = "switches", .config = test::tiny_switches()},
          {.name = "record with gates", .config = gated_record},
          {.name = "speedrun with skips", .config = deep_speedrun}};
}

// The loss under "loss" and the gradients of two micro-batches.
Gradients train(const ModelConfig& config, ActivationRecompute recompute, bool fake_quant) {
  const auto table = test::random_parameters(config, at::kFloat, 1);
  Gpt model(test::plan_of(config), table, {.recompute = recompute});
  model.set_fake_quant(fake_quant);
  model.cast_weights();
  Gradients found;
  for (const std::uint64_t seed : {3, 4}) {
    const auto tokens = test::integers({2, 17}, config.vocab_size, seed);
    const auto loss = model.loss(tokens.slice(1, 0, -1), tokens.slice(1, 1),
                                 {.auxiliary_losses = true, .scale = 0.5});
    loss.backward();
    found[fmt::format("loss {}", seed)] = loss.detach();
  }
  model.collect_gradients();
  for (const auto& row : table.rows()) {
    if (row.value.grad().defined()) found[row.name] = row.value.grad();
  }
  return found;
}

TEST(Recompute, LossAndEveryGradientHaveTheSameBits) {
  for (const auto& [name, config] : cases()) {
    for (const bool fake_quant : {false, true}) {
      const auto expected = train(config, ActivationRecompute::off, fake_quant);
      for (const auto mode : {ActivationRecompute::light, ActivationRecompute::block}) {
        SCOPED_TRACE(fmt::format("{}, {}, QAT {}", name, choice_name(mode), fake_quant));
        const auto found = train(config, mode, fake_quant);
        ASSERT_EQ(found.size(), expected.size());
        for (const auto& [parameter, gradient] : expected) {
          EXPECT_TRUE(at::equal(found.at(parameter), gradient))
              << parameter << " is off by "
              << (found.at(parameter) - gradient).abs().max().item<double>();
        }
      }
    }
  }
}

TEST(Recompute, WithoutGradientsNothingChanges) {
  const auto config = test::tiny_record();
  const auto table = test::random_parameters(config, at::kFloat, 1);
  const auto tokens = test::integers({2, 17}, config.vocab_size, 3);
  const auto losses = [&](ActivationRecompute mode) {
    return Gpt(test::plan_of(config), table, {.recompute = mode})
        .token_losses(tokens.slice(1, 0, -1), tokens.slice(1, 1));
  };
  EXPECT_TRUE(at::equal(losses(ActivationRecompute::block), losses(ActivationRecompute::off)));
}

// A product, a tensor that passes through, one that is missing, and one that no gradient reaches.
TEST(Recompute, RunsAgainInBackwardAndPassesUndefinedTensorsOn) {
  const auto weight = test::normal({3}, 1).set_requires_grad(true);
  const auto x = test::normal({2, 3}, 2).set_requires_grad(true);
  const auto constant = test::normal({2, 3}, 3);
  int runs = 0;
  const auto out = recomputed(
      [&](const std::vector<at::Tensor>& in) {
        ++runs;
        EXPECT_FALSE(in[1].defined());
        return std::vector<at::Tensor>{in[0] * weight + in[2], at::Tensor(), in[0], in[0].exp()};
      },
      {x, at::Tensor(), constant});
  ASSERT_EQ(out.size(), 4u);
  EXPECT_FALSE(out[1].defined());
  EXPECT_EQ(runs, 1);
  (out[0].sum() + 2 * out[2].sum()).backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(test::is_close(x.grad(), (weight + 2).expand({2, 3}), 1e-15, 0));
  EXPECT_TRUE(test::is_close(weight.grad(), x.detach().sum(0), 1e-15, 1e-15));
  EXPECT_FALSE(constant.grad().defined());
}

}  // namespace
}  // namespace tg
