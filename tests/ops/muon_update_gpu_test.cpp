// Muon's kernels against their reference in fp64. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include "ops/fused.h"
#include "ops/optim/muon_update.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class MuonUpdateGpu : public test::OnGpu<> {};

at::Tensor scalar(double value) {
  return at::full({}, value, at::TensorOptions(test::kGpu).dtype(at::kFloat));
}

// One element, remainders of a chunk, several iterations of the grid.
constexpr std::int64_t kCounts[] = {1, 7, 4099, 20000003};

TEST_F(MuonUpdateGpu, MomentumMatchesTheReference) {
  for (const auto b_dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto g_dtype : {at::kFloat, at::kBFloat16}) {
      for (const auto count : kCounts) {
        for (const bool skip : {false, true}) {
          at::manual_seed(count);
          const auto b = at::randn({count}, at::kFloat).to(test::kGpu, b_dtype);
          const auto g = at::randn({count}, at::kFloat).to(test::kGpu, g_dtype);
          const auto exact_b = b.to(at::kDouble);
          const auto flag = at::full({}, skip, at::TensorOptions(test::kGpu).dtype(at::kBool));
          const auto exact =
              nesterov_momentum(exact_b, g.to(at::kDouble), scalar(0.95), scalar(0.3), flag);
          const auto lookahead = nesterov_momentum(b, g, scalar(0.95), scalar(0.3), flag);
          // One rounding of b, which μ·b passes on, and one of the result.
          const double step = b_dtype == at::kFloat ? 2e-7 : 1.0 / 256;
          EXPECT_TRUE(test::is_close(b.cpu(), exact_b.cpu(), step, step)) << count << skip;
          EXPECT_TRUE(test::is_close(lookahead.cpu(), exact.cpu(), 2 * step, 2 * step))
              << count << skip;
        }
      }
    }
  }
}

TEST_F(MuonUpdateGpu, StepsMatchTheReference) {
  for (const auto u_dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto count : kCounts) {
      at::manual_seed(count);
      const auto p = at::randn({count}, at::kFloat).to(test::kGpu);
      const auto u = at::randn({count}, at::kFloat).to(test::kGpu, u_dtype);
      const auto exact = p.to(at::kDouble);
      decayed_step(exact, u.to(at::kDouble), scalar(0.025), 0.04, 1.7);
      decayed_step(p, u, scalar(0.025), 0.04, 1.7);
      EXPECT_TRUE(test::is_close(p.cpu(), exact.cpu(), 2e-7, 1e-8)) << count;
    }
  }
}

}  // namespace
}  // namespace tg
