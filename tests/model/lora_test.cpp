// Adapters of a model's layer calls and its head, in fp64 unless it says otherwise.
#include "model/lora.h"

#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

// The last record's recipe with three layer calls of two blocks, in widths that its script's
// adapters were drawn for.
ModelConfig three_calls() {
  auto config = test::tiny_last_record();
  config.vocab_size = 1024;
  config.num_layers = config.xsa_last_n = 2;
  config.model_dim = 272;
  config.num_heads = config.num_kv_heads = 8;
  config.mlp_mult = 1;
  config.rope_dims = 16;
  config.recurrence = {.num_loops = 1, .loop_start = 0, .loop_end = 0};
  config.lanes.parallel_start_layer = 1;
  return config;
}

TEST(LoraAdapters, AreDrawnAsTheScriptDrawsThem) {
  const auto config = three_calls();
  const auto table = test::make_parameters(config, at::kFloat, at::kCPU);
  const Gpt model(test::plan_of(config), table, {});
  auto generator = test::generator(42);
  LoraAdapters adapters(model, {.rank = 3, .alpha = 6}, 5, generator);
  const auto abs_sum = [](const at::Tensor& x) {
    return x.to(at::kDouble).abs().sum().item<double>();
  };
  const auto first = [](const at::Tensor& x, std::int64_t i) { return x[0][0][i].item<float>(); };
  const auto head = adapters.named("lm_head_lora.A");
  EXPECT_EQ(first(head, 0), 0.04635695740580559F);
  EXPECT_EQ(first(head, 1), 0.050326619297266006F);
  EXPECT_EQ(first(head, 2), -0.01420485507696867F);
  EXPECT_NEAR(abs_sum(head), 123.0165474501224, 1e-9);
  EXPECT_NEAR(abs_sum(adapters.named("q_loras.0.A")), 124.64415584703602, 1e-9);
  EXPECT_NEAR(abs_sum(adapters.named("o_loras.2.A")), 123.23351776953587, 1e-9);
}

// But for the update gate, which autograd does not follow to what it reads.
ModelConfig tiny_switches() {
  auto config = test::tiny_switches();
  config.dtg_enabled = false;
  return config;
}

// With a gate that reads the queries.
ModelConfig tiny_query_gate() {
  auto config = test::tiny_last_record();
  config.model_dim = 32;
  config.num_layers = config.xsa_last_n = 3;
  config.recurrence = {.num_loops = 1, .loop_start = 1, .loop_end = 1};
  config.lanes.parallel_start_layer = 2;
  config.gates.head_gate = HeadGateKind::output;
  config.gates.attn_out_gate_src = GateSource::queries;
  config.gates.gate_window = 10;  // of two heads
  return config;
}

struct RecipeCase {
  const char* name;
  ModelConfig config;
};

class AdaptedLosses : public testing::TestWithParam<RecipeCase> {
 protected:
  static constexpr std::int64_t kRows = 3, kTokens = 9;

  const ModelConfig& config_ = GetParam().config;
  const ParameterTable table_ = test::random_parameters(config_, at::kDouble, 1);
  Gpt model_{test::plan_of(config_), table_, {.compute = at::kDouble}};
  at::Generator generator_ = test::generator(7);
  LoraAdapters adapters_{model_, {.rank = 2, .alpha = 3}, kRows, generator_};
  const at::Tensor tokens_ = test::integers({kRows, kTokens + 1}, config_.vocab_size, 2),
                   inputs_ = tokens_.slice(1, 0, -1), targets_ = tokens_.slice(1, 1);

  void draw_b() { adapters_.all_b().copy_(test::normal(adapters_.all_b().sizes(), 3) * 0.3); }
  at::Tensor losses() const { return model_.adapted_losses(inputs_, targets_, adapters_); }
};

TEST_P(AdaptedLosses, AreTheModelsWhereBIsZero) {
  EXPECT_TRUE(test::is_close(losses(), model_.token_losses(inputs_, targets_), 1e-14, 0));
  draw_b();
  EXPECT_FALSE(test::is_close(losses(), model_.token_losses(inputs_, targets_), 1e-3, 0));
}

TEST_P(AdaptedLosses, HaveTheGradientOfEveryAdapterAndNoWeights) {
  draw_b();
  const auto weights = test::normal({kRows, kTokens}, 4);
  for (const auto& row : table_.rows()) row.value.mutable_grad() = at::full_like(row.value, 5);
  (losses() * weights).sum().backward();
  const auto& parameters = adapters_.parameters();
  const auto gradient = parameters.grad().clone();
  for (const auto& row : table_.rows())
    EXPECT_TRUE(row.value.grad().eq(5).all().item<bool>()) << row.name;

  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  for (const char* list : {"lm_head_lora", "q_loras", "k_loras", "v_loras", "mlp_loras", "o_loras"})
    for (const char* matrix : {".A", ".B"}) {
      const auto direction = at::zeros_like(gradient);
      for (const auto& [name, view] : adapters_.all_named()) {
        if (!name.starts_with(list) || !name.ends_with(matrix)) continue;
        const auto of_view = [&](const at::Tensor& flat) {
          return flat.as_strided(view.sizes(), view.strides(), view.storage_offset());
        };
        of_view(direction).copy_(test::normal(view.sizes(), 5));
        EXPECT_FALSE(of_view(gradient).eq(0).all().item<bool>()) << name;
      }
      const auto moved = [&](double by) {
        parameters.detach().add_(direction, by);
        const auto loss = (losses() * weights).sum().item<double>();
        parameters.detach().add_(direction, -by);
        return loss;
      };
      const auto expected = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      const auto found = (gradient * direction).sum().item<double>();
      EXPECT_NEAR(found, expected, 1e-7 * (1 + std::abs(expected))) << list << matrix;
    }
}

TEST_P(AdaptedLosses, OfARowDependOnItsOwnAdaptersAlone) {
  draw_b();
  const auto before = losses().detach();
  for (const auto& [name, view] : adapters_.all_named()) view[1].add_(0.1);
  const auto after = losses();
  for (const std::int64_t row : {0, 2}) EXPECT_TRUE(test::is_same(after[row], before[row]));
  EXPECT_FALSE(test::is_close(after[1], before[1], 1e-6, 0));
  // A row by itself.
  auto generator = test::generator(7);
  const LoraAdapters own(model_, {.rank = 2, .alpha = 3}, 1, generator);
  for (const auto& [name, view] : own.all_named()) view[0].copy_(adapters_.named(name)[1]);
  const auto alone = model_.adapted_losses(inputs_.narrow(0, 1, 1), targets_.narrow(0, 1, 1), own);
  EXPECT_TRUE(test::is_close(alone[0], after[1], 1e-12, 1e-13));

  after[0].sum().backward();
  const auto& parameters = adapters_.parameters();
  for (const auto& [name, view] : adapters_.all_named()) {
    const auto gradient =
        parameters.grad().as_strided(view.sizes(), view.strides(), view.storage_offset());
    EXPECT_NE(gradient[0].abs().sum().item<double>(), 0) << name;
    EXPECT_TRUE(gradient.narrow(0, 1, 2).eq(0).all().item<bool>()) << name;
  }
}

TEST_P(AdaptedLosses, OfFewerRowsAreThoseOfTheLastAdapters) {
  draw_b();
  const auto gradient = adapters_.parameters().grad();
  const auto all = losses();
  all.narrow(0, 1, 2).sum().backward();
  const auto expected = gradient.clone();
  gradient.fill_(7);
  const auto last = model_.adapted_losses(inputs_.narrow(0, 1, 2).contiguous(),
                                          targets_.narrow(0, 1, 2).contiguous(), adapters_);
  last.sum().backward();
  EXPECT_TRUE(test::is_close(last, all.narrow(0, 1, 2), 1e-12, 1e-13));
  for (const auto& [name, view] : adapters_.all_named()) {
    const auto like_view = [&](const at::Tensor& flat) {
      return flat.as_strided(view.sizes(), view.strides(), view.storage_offset());
    };
    EXPECT_TRUE(like_view(gradient)[0].eq(7).all().item<bool>()) << name;
    EXPECT_TRUE(test::is_close(like_view(gradient).narrow(0, 1, 2),
                               like_view(expected).narrow(0, 1, 2), 1e-9, 1e-12))
        << name;
  }
}

// Q, K, V and an untied head: an adapter is then a sum to the weights.
TEST_P(AdaptedLosses, AreThoseOfWeightsThatTheProductIsAddedTo) {
  auto config = config_;
  config.recurrence.num_loops = 0;  // one layer call a block
  const auto table = test::random_parameters(config, at::kDouble, 1);
  Gpt model(test::plan_of(config), table, {.compute = at::kDouble});
  auto generator = test::generator(7);
  const LoraAdapters adapters(model, {.rank = 2, .alpha = 3}, 1, generator);
  adapters.all_b().copy_(test::normal(adapters.all_b().sizes(), 3) * 0.3);
  for (const char* matrix : {"o_loras", "mlp_loras"})
    for (const auto& [name, view] : adapters.all_named())
      if (name.starts_with(matrix)) view.zero_();
  const auto& plan = model.plan();
  if (!plan.head.weight) adapters.named("lm_head_lora.B").zero_();
  const auto inputs = inputs_.narrow(0, 0, 1), targets = targets_.narrow(0, 0, 1);
  const auto adapted = model.adapted_losses(inputs, targets, adapters);

  const auto product = [&](const std::string& name) {
    return at::matmul(adapters.named(name + ".B")[0], adapters.named(name + ".A")[0]) * 1.5;
  };
  const auto& matrices = plan.matrices;
  const auto& calls = model.pass().calls;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const auto& [list, matrix] : {std::pair{"q_loras", &matrices.queries},
                                       {"k_loras", &matrices.keys},
                                       {"v_loras", &matrices.values}}) {
      const auto bank = table[matrix->bank].detach();
      const auto blocks = bank.size(0) / matrix->kinds;
      bank[matrix->kind * blocks + calls[i].block].add_(product(list + ("." + std::to_string(i))));
    }
  }
  if (plan.head.weight) table[plan.head.weight].detach().add_(product("lm_head_lora"));
  model.cast_weights();
  EXPECT_TRUE(test::is_close(adapted, model.token_losses(inputs, targets), 1e-11, 1e-12));
}

TEST_P(AdaptedLosses, OfSomePositionsAreTheirsOfAll) {
  draw_b();
  const auto& gradient = adapters_.parameters().grad();
  const auto expected_losses = losses().narrow(1, 3, 4);
  expected_losses.sum().backward();
  const auto expected = gradient.clone();
  const auto found =
      model_.adapted_losses(inputs_, targets_.narrow(1, 3, 4), adapters_, Positions{3, 7});
  EXPECT_TRUE(test::is_close(found, expected_losses, 1e-13, 0));
  found.sum().backward();
  EXPECT_TRUE(test::is_close(gradient, expected, 1e-10, 1e-13));
}

TEST_P(AdaptedLosses, AreTheSameInPaddedSizesAndWithRecomputation) {
  draw_b();
  const auto weights = test::normal({kRows, kTokens}, 4);
  const auto& gradient = adapters_.parameters().grad();
  const auto expected = losses();
  (expected * weights).sum().backward();
  const auto right = gradient.clone();
  const Padding padding{.vocab = 64, .channels = 8};
  for (const auto& numerics :
       {Numerics{.compute = at::kDouble, .padding = padding},
        Numerics{.compute = at::kDouble, .recompute = ActivationRecompute::light},
        Numerics{
            .compute = at::kDouble, .padding = padding, .recompute = ActivationRecompute::block}}) {
    const Gpt other(test::plan_of(config_), table_, numerics);
    gradient.zero_();
    const auto found = other.adapted_losses(inputs_, targets_, adapters_);
    EXPECT_TRUE(test::is_close(found, expected, 1e-12, 1e-13));
    (found * weights).sum().backward();
    EXPECT_TRUE(test::is_close(gradient, right, 1e-9, 1e-11));
  }
}

TEST_P(AdaptedLosses, FollowTheWeightsAsOfTheLastCast) {
  const auto before = losses().detach();
  for (const auto& row : table_.rows()) row.value.detach().mul_(1.1);
  model_.cast_weights();
  EXPECT_TRUE(test::is_close(losses(), model_.token_losses(inputs_, targets_), 1e-14, 0));
  EXPECT_FALSE(test::is_close(losses(), before, 1e-6, 0));
}

// Loss averaged over many tokens, whose parts fp16 would round to zero.
TEST(LoraAdapters, HaveInFp16TheGradientOfFp32) {
  const auto config = test::tiny_record();
  const auto table = test::random_parameters(config, at::kFloat, 1);
  const auto tokens = test::integers({2, 513}, config.vocab_size, 2);
  const auto gradient_in = [&](at::ScalarType compute) {
    const Gpt model(test::plan_of(config), table, {.compute = compute});
    auto generator = test::generator(7);
    const LoraAdapters adapters(model, {.rank = 2, .alpha = 3}, 2, generator);
    adapters.all_b().copy_(test::normal(adapters.all_b().sizes(), 3, at::kFloat) * 0.3);
    model.adapted_losses(tokens.slice(1, 0, -1), tokens.slice(1, 1), adapters)
        .mean(1)
        .sum()
        .backward();
    return adapters.parameters().grad().clone();
  };
  const auto expected = gradient_in(at::kFloat), found = gradient_in(at::kHalf);
  const auto error = (found - expected).norm() / expected.norm();
  EXPECT_LT(error.item<double>(), 0.01);
}

TEST(LoraAdapters, KeepAWhereBIsZeroedAndAreDrawnAnew) {
  const auto config = test::tiny_record();
  const auto table = test::random_parameters(config, at::kFloat, 1);
  const Gpt model(test::plan_of(config), table, {});
  auto generator = test::generator(1);
  LoraAdapters adapters(model, {.rank = 4, .alpha = 4, .keys = false, .mlp = false, .out = false},
                        2, generator);
  EXPECT_EQ(adapters.all_named().size(),
            2u + 2u * 2u * static_cast<std::size_t>(config.num_layers));
  adapters.all_b().fill_(2);
  const auto a = adapters.all_a().clone();
  adapters.zero_b();
  EXPECT_TRUE(adapters.named("lm_head_lora.B").eq(0).all().item<bool>());
  EXPECT_TRUE(adapters.named("v_loras.4.B").eq(0).all().item<bool>());
  EXPECT_TRUE(test::is_same(adapters.all_a(), a));
  adapters.draw_a(generator);
  EXPECT_FALSE(adapters.all_a().eq(a).any().item<bool>());
  EXPECT_LE(adapters.all_a().abs().max().item<double>(), 1 / std::sqrt(24.0));
  EXPECT_EQ(adapters.parameters().grad().sizes(), adapters.parameters().sizes());
  EXPECT_EQ(adapters.parameters().scalar_type(), at::kFloat);
}

INSTANTIATE_TEST_SUITE_P(Recipes, AdaptedLosses,
                         testing::Values(RecipeCase{"query_gate", tiny_query_gate()},
                                         RecipeCase{"speedrun", test::tiny_speedrun()},
                                         RecipeCase{"record", test::tiny_record()},
                                         RecipeCase{"switches", tiny_switches()},
                                         RecipeCase{"last_record", test::tiny_last_record()}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tg
