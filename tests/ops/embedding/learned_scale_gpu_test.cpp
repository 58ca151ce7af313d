// Tests the kernels of ops/embedding/learned_scale.h against fp64.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/embedding/learned_scale.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class LearnedScaleGpu : public test::OnGpu<::testing::TestWithParam<at::ScalarType>> {};

// The upstream gradient is a slice of wider rows, as the QKV projection's is.
TEST_P(LearnedScaleGpu, OutputAndGradientsMatchTheFormula) {
  const struct {
    std::int64_t batch, tokens, width, all;
  } cases[] = {{1, 700, 768, 2304}, {3, 41, 64, 64}, {2, 1, 16, 48}, {1, 1, 8, 8}};
  for (const auto& [batch, tokens, width, all] : cases) {
    const auto x = test::normal({batch, tokens, width}, 1, GetParam());
    const auto dy = test::normal({batch, tokens, all}, 2, GetParam());
    const auto on_gpu = x.to(test::kGpu).set_requires_grad(true);
    const auto scale =
        at::full({1}, 0.3, at::device(test::kGpu).dtype(at::kFloat)).set_requires_grad(true);
    const auto run = [&] {
      const auto out = learned_scale(on_gpu, scale);
      const auto d = torch::autograd::grad({out}, {on_gpu, scale},
                                           {dy.to(test::kGpu).narrow(2, all - width, width)});
      return std::vector<at::Tensor>{out.detach(), d[0], d[1]};
    };
    const auto found = run(), again = run();
    const auto x64 = x.to(at::kDouble), dy64 = dy.narrow(2, all - width, width).to(at::kDouble);
    const double factor = scale.item<double>();
    const double rounding = GetParam() == at::kFloat  ? 0x1p-23
                            : GetParam() == at::kHalf ? 0x1p-11
                                                      : 0x1p-8;
    SCOPED_TRACE(x.numel());
    EXPECT_EQ(found[0].scalar_type(), GetParam());
    EXPECT_TRUE(test::is_close(found[0], x64 * factor, rounding, 1e-7));
    EXPECT_TRUE(test::is_close(found[1], dy64 * factor, rounding, 1e-7));
    // A sum of so many fp32 products.
    const double noise = std::sqrt(static_cast<double>(x.numel())) * 0x1p-20;
    EXPECT_TRUE(test::is_close(found[2], (x64 * dy64).sum().view({1}), 1e-5, noise));
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], again[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LearnedScaleGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param));
                         });

}  // namespace
}  // namespace tg
