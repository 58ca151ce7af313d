// The plan of lanes_plan.h with kernels against itself without. Skipped without a GPU.
#include <cmath>
#include <map>

#include "model/numerics.h"
#include "ops/attention/attention.h"
#include "tests/model/lanes_plan.h"
#include "tests/ops/on_gpu.h"

namespace tg {
namespace {

using Gradients = std::vector<std::pair<std::string, at::Tensor>>;

class TwoLanesGpu : public test::OnGpu<testing::TestWithParam<test::LaneCase>> {
 protected:
  // The loss and every gradient, of the same parameters in any dtype.
  static Gradients train(at::ScalarType compute, bool fused, std::uint64_t seed = 1) {
    const auto config = test::three_blocks();
    const auto lanes = test::two_lanes(config, GetParam());
    const auto table = make_parameters(lanes.spec.parameters, compute, test::kGpu);
    const auto tokens = test::integers({3, 38}, config.vocab_size, seed++).to(test::kGpu);
    for (const auto& row : table.rows())
      row.value.detach().copy_((test::normal(row.value.sizes(), seed++) * 0.4).to(at::kBFloat16));
    set_fused(fused);
    const auto padding =
        fused ? choose_padding(PadVocab::automatic, test::kGpu, compute) : Padding();
    use_attention(choose_attention("auto", test::kGpu, compute,
                                   compute_sizes(model_shape(config), padding).head_dim));
    Gpt model(lanes.spec.plan, table, {.compute = compute, .padding = padding});
    const auto loss =
        model.loss(tokens.slice(1, 0, -1).contiguous(), tokens.slice(1, 1).contiguous(), {});
    loss.backward();
    model.collect_gradients();
    set_fused(true);
    Gradients found{{"loss", loss.detach()}};
    for (const auto& row : table.rows()) found.emplace_back(row.name, row.value.grad());
    return found;
  }
  static double distance(const at::Tensor& a, const at::Tensor& b) {
    const auto exact = b.to(at::kDouble);
    return ((a.to(at::kDouble) - exact).norm() / (exact.norm() + 1e-12)).item<double>();
  }
};

TEST_P(TwoLanesGpu, EveryGradientIsTheReferences) {
  const auto exact = train(at::kDouble, false), found = train(at::kFloat, true);
  ASSERT_EQ(found.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_LT(distance(found[i].second, exact[i].second), 1e-4) << exact[i].first;
}

// The geometric mean over several models, since a single reference may be near the truth by chance,
// and a few models amplify every rounding.
TEST_P(TwoLanesGpu, InHalfPrecisionNoGradientIsFartherFromTheTruthThanTheReferences) {
  constexpr std::uint64_t kModels = 12;
  std::map<std::string, double> log_ratios, bounds;
  for (std::uint64_t model = 0; model < kModels; ++model) {
    const auto seed = 1 + 1000 * model;
    const auto exact = train(at::kDouble, false, seed),
               reference = train(at::kBFloat16, false, seed),
               found = train(at::kBFloat16, true, seed);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto& [name, right] = exact[i];
      const double error = distance(found[i].second, right),
                   other = distance(reference[i].second, right);
      log_ratios[name] += std::log(error / other) / kModels;
      bounds[name] = right.numel() <= 8 ? 3 : 1.7;  // a few numbers may be right by chance
    }
  }
  for (const auto& [name, log_ratio] : log_ratios)
    EXPECT_LT(std::exp(log_ratio), bounds.at(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Plans, TwoLanesGpu, testing::ValuesIn(test::kLaneCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
