// Adapters of a model's visits and its head, in fp64 unless it says otherwise.
#include "model/lora.h"

#include "tests/model/fixtures.h"

namespace tg {
namespace {

// The last record's recipe with three visits of two blocks, in widths that its script's adapters
// were drawn for.
ModelConfig three_visits() {
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
  const auto config = three_visits();
  const auto table = make_parameters(config, at::kFloat, at::kCPU);
  const Gpt model(config, table, {});
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

struct RecipeCase {
  const char* name;
  ModelConfig config;
};

class AdaptedLosses : public testing::TestWithParam<RecipeCase> {
 protected:
  static constexpr std::int64_t kRows = 3, kTokens = 9;

  const ModelConfig& config_ = GetParam().config;
  const ParameterTable table_ = test::random_parameters(config_, at::kDouble, 1);
  const Gpt model_{config_, table_, {.compute = at::kDouble}};
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
        const auto of = (losses() * weights).sum().item<double>();
        parameters.detach().add_(direction, -by);
        return of;
      };
      const auto expected = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      const auto found = (gradient * direction).sum().item<double>();
      EXPECT_NEAR(found, expected, 1e-7 * (1 + std::abs(expected))) << list << matrix;
    }
}

INSTANTIATE_TEST_SUITE_P(Recipes, AdaptedLosses,
                         testing::Values(RecipeCase{"speedrun", test::tiny_speedrun()},
                                         RecipeCase{"record", test::tiny_record()},
                                         RecipeCase{"switches", tiny_switches()},
                                         RecipeCase{"last_record", test::tiny_last_record()}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tg
