// The whole model on a GPU: own kernels against the reference, gradient by gradient. Skipped where
// there is no GPU.

#include <cmath>
#include <map>

#include "ops/attention/attention.h"
#include "ops/fused.h"
#include "ops/kernels.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"
#include "tests/ops/on_fp8_gpu.h"

namespace tg {
namespace {

struct Shape {
  const char* name;
  ModelConfig config;
  std::int64_t rows, length;
};

ModelConfig record() {
  ModelConfig c;
  c.num_layers = 5;
  c.ve_layers = {1, 4};
  c.bigram_vocab_size = 1536;
  return c;
}

ModelConfig speedrun() {
  auto c = test::speedrun_config();
  c.num_layers = 3;
  return c;
}

// One head, or heads of another size; a vocabulary that is no multiple of 8.
struct Odd {
  std::int64_t heads, head_dim, vocab;
};
ModelConfig odd(const Odd& sizes) {
  auto c = record();
  c.vocab_size = sizes.vocab;
  c.num_heads = sizes.heads;
  c.num_kv_heads = sizes.heads % 2 == 0 ? sizes.heads / 2 : 1;
  c.model_dim = sizes.heads * sizes.head_dim;
  c.mlp_mult = 1.5;
  return c;
}

std::vector<Shape> shapes() {
  auto switches = test::tiny_switches();
  switches.model_dim = 96;
  switches.bigram_dim = 96;
  const auto one_head_of_256 = odd({.heads = 1, .head_dim = 256, .vocab = 1021});
  const auto heads_of_16 = odd({.heads = 6, .head_dim = 16, .vocab = 999});
  const auto heads_of_50 = odd({.heads = 3, .head_dim = 50, .vocab = 1021});
  auto rotated_heads_of_20 = odd({.heads = 6, .head_dim = 20, .vocab = 1024});
  rotated_heads_of_20.rope_dims = 0;
  const auto heads_of_110 = odd({.heads = 7, .head_dim = 110, .vocab = 1021});
  auto windows = record();
  windows.attention_window = {128, 0, 100, 699, 50};
  const auto heads_of_128 = odd({.heads = 2, .head_dim = 128, .vocab = 50257});
  return {{.name = "record", .config = record(), .rows = 2, .length = 2048},
          {.name = "speedrun", .config = speedrun(), .rows = 1, .length = 1024},
          {.name = "windows", .config = windows, .rows = 2, .length = 700},
          {.name = "ragged", .config = record(), .rows = 3, .length = 100},
          {.name = "one_head_of_256", .config = one_head_of_256, .rows = 2, .length = 77},
          {.name = "heads_of_16", .config = heads_of_16, .rows = 2, .length = 130},
          {.name = "heads_of_50", .config = heads_of_50, .rows = 2, .length = 130},
          {.name = "rotated_heads_of_20", .config = rotated_heads_of_20, .rows = 2, .length = 130},
          {.name = "heads_of_110", .config = heads_of_110, .rows = 1, .length = 130},
          {.name = "heads_of_128", .config = heads_of_128, .rows = 1, .length = 130},
          {.name = "switches", .config = switches, .rows = 2, .length = 40}};
}

using Gradients = std::map<std::string, at::Tensor>;

// Drawn once for all runs of a shape, since that takes longer than the runs.
ParameterTable weights_of(const Shape& shape) {
  return test::random_parameters(shape.config, at::kFloat, 1);
}

// The loss under the name "loss", and every parameter's gradient, in fp64 on the GPU. With own
// kernels, sizes are padded as in a run.
Gradients train(const Shape& shape, const ParameterTable& source, at::ScalarType compute,
                bool fused) {
  const auto storage = compute == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
  const auto table = test::make_parameters(shape.config, storage, test::kGpu);
  for (const auto& row : table.rows()) {
    // As bf16 holds them, so that all formats start from the same weights; small enough that the
    // activations stay in the range of a trained model's.
    const auto value = (source[row.name].detach() * 0.3).to(at::kBFloat16);
    row.value.detach().copy_(value);
  }
  // Tokens for which no scalar gradient is near 0: what cancels would exceed any relative bound.
  const auto tokens = test::integers({shape.rows, shape.length + 1}, shape.config.vocab_size, 7);
  set_fused(fused);
  const auto padding = fused ? choose_padding(PadVocab::automatic, test::kGpu, compute) : Padding();
  const auto sizes = compute_sizes(model_shape(shape.config), padding);
  use_attention(choose_attention("auto", test::kGpu, compute, sizes.head_dim));
  Gpt model(test::plan_of(shape.config), table, {.compute = compute, .padding = padding});
  // Keeps the gradients of many tokens in the range of fp16, and changes no other rounding.
  const double tokens_at_once = static_cast<double>(shape.rows * shape.length);
  const auto grad_scale = at::full({}, std::exp2(std::floor(std::log2(tokens_at_once))),
                                   at::device(test::kGpu).dtype(at::kFloat));
  const auto loss = model.loss(tokens.slice(1, 0, -1).contiguous().to(test::kGpu),
                               tokens.slice(1, 1).contiguous().to(test::kGpu),
                               {.auxiliary_losses = true, .scale = 0.5, .grad_scale = grad_scale});
  loss.backward();
  model.collect_gradients();
  set_fused(true);
  Gradients found{{"loss", loss.detach().to(at::kDouble)}};
  for (const auto& row : table.rows()) {
    if (!row.value.grad().defined()) continue;
    found[row.name] = row.value.grad().to(at::kDouble) / grad_scale.item<double>();
  }
  return found;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / (b.norm().item<double>() + 1e-12);
}

// A gradient of one or two elements is a sum of as many signed terms as there are activations, and
// loses digits by cancellation.
bool cancels(const at::Tensor& gradient) {
  return gradient.numel() <= 2;
}

class GptGpu : public test::OnGpu<::testing::TestWithParam<Shape>> {};

TEST_P(GptGpu, EveryGradientInSinglePrecisionIsTheReferences) {
  const auto weights = weights_of(GetParam());
  const auto expected = train(GetParam(), weights, at::kFloat, /*fused=*/false);
  const auto found = train(GetParam(), weights, at::kFloat, /*fused=*/true);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    // Some hundred operations in another order, 6e-8 each.
    EXPECT_LT(distance(found.at(name), gradient), cancels(gradient) ? 2e-4 : 2e-5) << name;
  }
}

void expect_no_farther_from(const Gradients& truth, const Shape& shape,
                            const ParameterTable& weights, at::ScalarType compute) {
  const auto expected = train(shape, weights, compute, /*fused=*/false);
  const auto found = train(shape, weights, compute, /*fused=*/true);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, gradient] : truth) {
    const double own = distance(found.at(name), gradient);
    const double reference = distance(expected.at(name), gradient);
    // Fewer roundings, but not in every sum; a part in 100 is bf16's own noise. A q_gain's
    // gradient, one number per head, may be near the truth in the reference by chance.
    const double bound = cancels(gradient)       ? 3 * reference + 0.2
                         : gradient.numel() <= 8 ? 3 * reference + 0.02
                                                 : 1.3 * reference + 0.01;
    EXPECT_LT(own, bound) << compute << ": " << name << ", reference " << reference;
  }
}

TEST_P(GptGpu, InHalfPrecisionNoGradientIsFartherFromTheTruthThanTheReferences) {
  const auto weights = weights_of(GetParam());
  const auto truth = train(GetParam(), weights, at::kFloat, /*fused=*/false);
  expect_no_farther_from(truth, GetParam(), weights, at::kBFloat16);
  expect_no_farther_from(truth, GetParam(), weights, at::kHalf);
}

struct Fp8Steps {
  Gradients gradients;
  Fp8Parts parts;                          // in FP8
  at::Tensor scales_at_first{}, scales{};  // of the steps; undefined without FP8
};

// The second of two steps with GEMMs in FP8, whose scales follow from the first.
Fp8Steps train_in_fp8(const Shape& shape, const ParameterTable& source, Fp8Parts parts,
                      ActivationRecompute recompute = ActivationRecompute::off) {
  const auto table = test::make_parameters(shape.config, at::kBFloat16, test::kGpu);
  for (const auto& row : table.rows()) row.value.detach().copy_(source[row.name].detach() * 0.3);
  const auto tokens =
      test::integers({shape.rows, shape.length + 1}, shape.config.vocab_size, 3).to(test::kGpu);
  use_attention(choose_attention("auto", test::kGpu, at::kBFloat16,
                                 shape.config.model_dim / shape.config.num_heads));
  Gpt model(test::plan_of(shape.config), table,
            {.compute = at::kBFloat16,
             .recompute = recompute,
             .fp8 = parts,
             .has_fp8 = true,
             .step_tokens = shape.rows * shape.length});
  Fp8Steps steps{.gradients = {}, .parts = model.fp8_parts()};
  auto& found = steps.gradients;
  const auto& scales = model.fp8_scales().scales();
  if (scales.defined()) steps.scales_at_first = scales.clone();
  for (int step = 0; step < 2; ++step) {
    for (const auto& row : table.rows()) {
      if (row.value.grad().defined()) row.value.mutable_grad().zero_();
    }
    const auto loss =
        model.loss(tokens.slice(1, 0, -1).contiguous(), tokens.slice(1, 1).contiguous(),
                   {.auxiliary_losses = true, .fp8 = true});
    loss.backward();
    model.collect_gradients();
    model.fp8_scales().update();
    found = {{"loss", loss.detach().to(at::kDouble)}};
    for (const auto& row : table.rows()) {
      if (row.value.grad().defined()) found[row.name] = row.value.grad().to(at::kDouble);
    }
  }
  if (scales.defined()) steps.scales = scales;
  return steps;
}

class Fp8GptGpu : public test::OnFp8Gpu<> {
 protected:
  static Shape untied(std::int64_t vocab, std::int64_t layers, std::int64_t length) {
    auto config = odd({.heads = 2, .head_dim = 64, .vocab = vocab});
    config.num_layers = layers;
    config.ve_layers = {1, layers - 1};
    config.tie_embeddings = false;
    return {.name = "fp8", .config = config, .rows = 1, .length = length};
  }
};

TEST_F(Fp8GptGpu, GradientsAreNearThoseOfBf16AndTheSameBitsWithRecompute) {
  const auto shape = untied(/*vocab=*/8192, /*layers=*/4, /*length=*/130);
  const auto weights = weights_of(shape);
  constexpr Fp8Parts all{.mlp = true, .qkv = true, .out = true, .head = true};
  const auto bf16 = train_in_fp8(shape, weights, {}).gradients;
  const auto steps = train_in_fp8(shape, weights, all);
  EXPECT_TRUE(steps.parts.all());
  const auto& fp8 = steps.gradients;
  ASSERT_EQ(fp8.size(), bf16.size());
  for (const auto& [name, gradient] : bf16) {
    if (!cancels(gradient) || name == "loss") {
      EXPECT_LT(distance(fp8.at(name), gradient), name == "loss" ? 0.01 : 0.3) << name;
    }
  }
  EXPECT_GT(distance(fp8.at("mlp_up_bank"), bf16.at("mlp_up_bank")), 0.005)
      << "not the path that was meant";
  for (const auto mode : {ActivationRecompute::light, ActivationRecompute::block}) {
    SCOPED_TRACE(choice_name(mode));
    for (const auto& [name, gradient] : train_in_fp8(shape, weights, all, mode).gradients)
      EXPECT_TRUE(at::equal(gradient, fp8.at(name))) << name;
  }
}

// Nobody reads its input in FP8 then, so that none is written, nor its magnitude measured.
TEST_F(Fp8GptGpu, AHeadThatIsNotInFp8LeavesNoTrace) {
  auto small = untied(/*vocab=*/1024, /*layers=*/2, /*length=*/40), wide_cap = small, tied = small;
  wide_cap.config.vocab_size = 8192;
  wide_cap.config.objective.logit_softcap = 40;
  tied.config.tie_embeddings = true;
  small.name = "small", wide_cap.name = "wide_cap", tied.name = "tied";
  for (const auto& shape : {small, wide_cap, tied}) {
    SCOPED_TRACE(shape.name);
    const auto weights = weights_of(shape);
    const auto bf16 = train_in_fp8(shape, weights, {});
    const auto asked = train_in_fp8(shape, weights, {.head = true});
    EXPECT_FALSE(asked.parts.any());
    EXPECT_TRUE(at::equal(asked.scales, asked.scales_at_first));
    for (const auto& [name, gradient] : bf16.gradients)
      EXPECT_TRUE(at::equal(asked.gradients.at(name), gradient)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GptGpu, ::testing::ValuesIn(shapes()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
