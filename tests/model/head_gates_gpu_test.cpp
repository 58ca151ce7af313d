// Models with gates on attention's heads on a GPU: own kernels against the reference, gradient by
// gradient.
#include <map>

#include "ops/attention/attention.h"
#include "ops/fused.h"
#include "tests/model/head_gates.h"
#include "tests/ops/on_fp8_gpu.h"

namespace tg {
namespace {

struct Case {
  const char* name;
  HeadGate gate;
  std::int64_t exclusive = 2;  // blocks
};

// Two heads of 64.
ModelConfig two_blocks(std::int64_t exclusive) {
  auto config = test::tiny_record();
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.model_dim = 128;
  config.mlp_mult = 2;
  config.rope_dims = 16;
  config.bigram_vocab_size = 0;
  config.xsa_last_n = exclusive;
  config.ve_enabled = config.unet_skips = false;
  config.gates.smear = SmearKind::off;
  return config;
}

using Tensors = std::map<std::string, at::Tensor>;

class HeadGatesGpu : public test::OnFp8Gpu<testing::TestWithParam<Case>> {
 protected:
  ParameterTable table(at::ScalarType compute) const {
    auto found = make_parameters(spec_.parameters,
                                 compute == at::kBFloat16 ? at::kBFloat16 : at::kFloat, test::kGpu);
    std::uint64_t seed = 1;
    for (const auto& row : found.rows()) {
      // As bf16 holds them, small enough for activations of a trained model's range.
      const auto value = test::normal(row.value.sizes(), seed++, at::kBFloat16) * 0.15;
      row.value.detach().copy_(value);
    }
    return found;
  }
  // The loss, the logits of some positions and every gradient, in fp64.
  Tensors run(const Numerics& numerics, bool fused) const {
    const auto parameters = table(numerics.compute);
    set_fused(fused);
    use_attention(choose_attention("auto", test::kGpu, numerics.compute, 64));
    Gpt model(spec_.plan, parameters, numerics);
    const auto tokens = test::integers({2, 78}, config_.vocab_size, 3).to(test::kGpu);
    const auto inputs = tokens.slice(1, 0, -1).contiguous();
    const auto loss =
        model.loss(inputs, tokens.slice(1, 1).contiguous(), {.fp8 = numerics.has_fp8});
    loss.backward();
    model.collect_gradients();
    Tensors found{{"loss", loss.detach()}, {"logits", model.logits(inputs, {40, 51}, 77)}};
    for (const auto& row : parameters.rows()) found[row.name] = row.value.grad();
    for (auto& [name, tensor] : found) tensor = tensor.to(at::kCPU, at::kDouble);
    set_fused(true);
    return found;
  }

  const ModelConfig config_ = two_blocks(GetParam().exclusive);
  const ModelSpec spec_ = test::gated(config_, GetParam().gate);
};

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / (b.norm().item<double>() + 1e-12);
}

constexpr Numerics kBf16{.compute = at::kBFloat16};
constexpr Numerics kFp8{.compute = at::kBFloat16,
                        .fp8 = {.mlp = true, .qkv = true},
                        .has_fp8 = true,
                        .step_tokens = 2 * 77};

// A gradient of two elements loses digits by cancellation.
bool cancels(const at::Tensor& gradient) {
  return gradient.numel() <= 2;
}

TEST_P(HeadGatesGpu, NothingIsFartherFromTheTruthThanTheReferences) {
  const auto truth = run({}, /*fused=*/false), reference = run(kBf16, /*fused=*/false),
             found = run(kBf16, /*fused=*/true);
  for (const auto& [name, exact] : truth) {
    const double of_reference = distance(reference.at(name), exact);
    EXPECT_LT(distance(found.at(name), exact),
              cancels(exact) ? 3 * of_reference + 0.2 : 1.3 * of_reference + 0.01)
        << name << ", reference " << of_reference;
  }
}

TEST_P(HeadGatesGpu, InFp8GradientsAreNearTheTruth) {
  const auto truth = run({}, /*fused=*/false), found = run(kFp8, /*fused=*/true);
  for (const auto& [name, exact] : truth) {
    if (cancels(exact)) continue;
    EXPECT_LT(distance(found.at(name), exact), 0.3) << name;
  }
}

TEST_P(HeadGatesGpu, RecomputationGivesTheSameBits) {
  for (const auto& numerics : {kBf16, kFp8}) {
    const auto kept = run(numerics, /*fused=*/true);
    for (const auto mode : {ActivationRecompute::light, ActivationRecompute::block}) {
      auto recomputes = numerics;
      recomputes.recompute = mode;
      for (const auto& [name, tensor] : run(recomputes, /*fused=*/true))
        EXPECT_TRUE(at::equal(tensor, kept.at(name))) << name << ", " << choice_name(mode);
    }
  }
}

using Input = HeadGate::Input;
INSTANTIATE_TEST_SUITE_P(
    Kinds, HeadGatesGpu,
    testing::Values(Case{"sparse", {.window = 12, .scale = 0.5}},
                    Case{"one_exclusive", {.window = 12, .scale = 0.5}, 1},
                    Case{"wide", {.window = 24, .range = 2}}, Case{"all_channels", {}},
                    Case{"queries", {.input = Input::queries, .window = 12, .range = 2}}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
