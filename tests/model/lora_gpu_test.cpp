// Adapted passes with kernels against themselves without. Skipped without a GPU.
#include "model/lora.h"
#include "model/numerics.h"
#include "ops/attention/attention.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/linear_residual_norm.h"
#include "tests/model/fixtures.h"
#include "tests/model/lanes_plan.h"
#include "tests/model/spec.h"
#include "tests/ops/on_gpu.h"

namespace tg {
namespace {

struct Model {
  ModelConfig config;
  ModelSpec spec;
};

// Heads of 64; lanes, or the last record with its gates, exclusive attention and recurrence.
Model model_of(const std::string& name) {
  if (name == "lanes") {
    auto config = test::three_blocks();
    config.model_dim = 256;
    return {config, test::two_lanes(config, test::kLaneCases[0]).spec};
  }
  auto config = test::tiny_last_record();
  config.num_layers = config.xsa_last_n = 3;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.model_dim = 128;
  config.recurrence = {.num_loops = 1, .loop_start = 1, .loop_end = 1};
  config.lanes.parallel_start_layer = 2;
  return {config, test::spec_of(config)};
}

class ConstantsGpu : public test::OnGpu<> {};

class AdaptedGpu : public test::OnGpu<testing::TestWithParam<const char*>> {
 protected:
  using Found = std::map<std::string, at::Tensor>;

  // The losses and the gradient of every adapter, of the same numbers in any dtype.
  static Found train(at::ScalarType compute, bool fused) {
    const auto [config, spec] = model_of(GetParam());
    const auto storage = compute == at::kBFloat16 ? at::kFloat : compute;
    const auto table = make_parameters(spec.parameters, storage, test::kGpu);
    std::uint64_t seed = 1;
    for (const auto& row : table.rows())
      row.value.detach().copy_((test::normal(row.value.sizes(), seed++) * 0.1).to(at::kBFloat16));
    set_fused(fused);
    use_attention(choose_attention("auto", test::kGpu, compute, 64));
    const Gpt model(spec.plan, table, {.compute = compute});
    auto generator = test::generator(1);
    const LoraAdapters adapters(model, {.rank = 8, .alpha = 12}, 3, generator);
    for (const auto& [name, view] : adapters.all_named())
      view.copy_((test::normal(view.sizes(), ++seed) * 0.1).to(at::kBFloat16));
    const auto tokens = test::integers({3, 38}, config.vocab_size, 2).to(test::kGpu);
    const auto losses =
        model.adapted_losses(tokens.slice(1, 0, -1).contiguous(),
                             tokens.slice(1, 10, 31).contiguous(), adapters, Positions{9, 30});
    losses.sum().backward();
    set_fused(true);
    Found found{{"losses", losses.detach()}};
    const auto& gradient = adapters.parameters().grad();
    for (const auto& [name, view] : adapters.all_named())
      found[name] = gradient.as_strided(view.sizes(), view.strides(), view.storage_offset());
    return found;
  }
  static double distance(const at::Tensor& a, const at::Tensor& b) {
    const auto exact = b.to(at::kDouble);
    return ((a.to(at::kDouble) - exact).norm() / (exact.norm() + 1e-12)).item<double>();
  }
};

TEST_P(AdaptedGpu, EveryGradientIsTheReferences) {
  const auto exact = train(at::kDouble, false), found = train(at::kFloat, true);
  for (const auto& [name, right] : exact) EXPECT_LT(distance(found.at(name), right), 1e-4) << name;
}

TEST_F(ConstantsGpu, AreMultipliedByTheKernelsOfTraining) {
  const auto on_gpu = at::TensorOptions(test::kGpu).dtype(at::kBFloat16);
  const auto x = at::ones({128, 256}, on_gpu), up = at::ones({512, 256}, on_gpu),
             down = at::ones({256, 512}, on_gpu);
  const auto trained = [](const at::Tensor& value) { return Weight{value, value.to(at::kFloat)}; };
  const auto mlp = choose_mlp(x, trained(up), trained(down));
  EXPECT_EQ(choose_mlp(x, {up, {}}, {down, {}}), mlp);
  EXPECT_EQ(choose_linear_residual_norm(x, {down, {}}, mlp_input(mlp)),
            choose_linear_residual_norm(x, trained(down), mlp_input(mlp)));
  const auto followed = up.clone().set_requires_grad(true);
  EXPECT_EQ(choose_mlp(x, {followed, {}}, {down, {}}), Kernel::aten);
}

TEST_P(AdaptedGpu, InHalfPrecisionNoGradientIsFartherFromTheTruthThanTheReferences) {
  const auto exact = train(at::kDouble, false), reference = train(at::kBFloat16, false),
             found = train(at::kBFloat16, true);
  for (const auto& [name, right] : exact) {
    const double other = distance(reference.at(name), right);
    EXPECT_LT(distance(found.at(name), right), 1.5 * other + 1e-3)
        << name << ", reference " << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdaptedGpu, testing::Values("lanes", "last_record"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace tg
