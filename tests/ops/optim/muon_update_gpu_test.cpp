// Tests Muon's kernels against their reference in fp64. Skipped without a GPU.
#include <gtest/gtest.h>

#include <functional>

#include "ops/fused.h"
#include "ops/optim/muon_update.h"
#include "ops/optim/orthogonalize.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class MuonUpdateGpu : public test::OnGpu<> {};

at::Tensor scalar(double value) {
  return at::full({}, value, at::TensorOptions(test::kGpu).dtype(at::kFloat));
}

// One element, remainders of a chunk, several grid-stride iterations.
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
          // One rounding of b, which is multiplied by μ, and one of the result.
          const double step = b_dtype == at::kFloat ? 2e-7 : 1.0 / 256;
          EXPECT_TRUE(test::is_close(b.cpu(), exact_b.cpu(), step, step)) << count << skip;
          EXPECT_TRUE(test::is_close(lookahead.cpu(), exact.cpu(), 2 * step, 2 * step))
              << count << skip;
        }
      }
    }
  }
}

TEST_F(MuonUpdateGpu, AnAverageOfGradientsMatchesTheReference) {
  for (const auto g_dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      for (const auto count : kCounts) {
        for (const bool skip : {false, true}) {
          at::manual_seed(count);
          const auto b = at::randn({count}, at::kFloat).to(test::kGpu);
          const auto g = at::randn({count}, at::kFloat).to(test::kGpu, g_dtype);
          const auto exact_b = b.to(at::kDouble);
          const auto flag = at::full({}, skip, at::TensorOptions(test::kGpu).dtype(at::kBool));
          const auto exact = averaged_momentum(exact_b, g.to(at::kDouble), scalar(0.9), scalar(0.3),
                                               flag, at::kDouble);
          const auto ahead = averaged_momentum(b, g, scalar(0.9), scalar(0.3), flag, dtype);
          EXPECT_EQ(ahead.scalar_type(), dtype);
          EXPECT_TRUE(test::is_close(b.cpu(), exact_b.cpu(), 3e-7, 3e-7)) << count << skip;
          const double rounding = dtype == at::kFloat ? 5e-7 : 1.0 / 256;
          EXPECT_TRUE(test::is_close(ahead.cpu(), exact.cpu(), rounding, 5e-7)) << count << skip;
        }
      }
    }
  }
}

TEST_F(MuonUpdateGpu, StepsMatchTheReference) {
  for (const auto step : {decayed_step, cautiously_decayed_step}) {
    for (const auto u_dtype : {at::kFloat, at::kBFloat16}) {
      for (const auto count : kCounts) {
        at::manual_seed(count);
        const auto p = at::randn({count}, at::kFloat).to(test::kGpu);
        const auto u = at::randn({count}, at::kFloat).to(test::kGpu, u_dtype);
        const auto exact = p.to(at::kDouble);
        step(exact, u.to(at::kDouble), scalar(0.025), 1.2, 1.7);
        step(p, u, scalar(0.025), 1.2, 1.7);
        EXPECT_TRUE(test::is_close(p.cpu(), exact.cpu(), 2e-7, 1e-7)) << count;
      }
    }
  }
}

// The kernels and ATen round in different places, so equal bits show which of them ran.
void expect_kernels_bits(const char* layout, const at::Tensor& x,
                         const std::function<at::Tensor(const at::Tensor&)>& update) {
  const auto expected = update(x.contiguous());
  EXPECT_TRUE(at::equal(update(x), expected)) << layout;
  set_fused(false);
  EXPECT_FALSE(at::equal(update(x), expected)) << layout << ": no kernel at all";
  set_fused(true);
}

TEST_F(MuonUpdateGpu, EveryLayoutTakesTheKernels) {
  at::manual_seed(7);
  const auto make = [](at::IntArrayRef sizes) { return at::randn(sizes).to(test::kGpu); };
  const auto p = make({2, 40, 24}), b = make({2, 40, 24});
  const auto no_skip = at::full({}, false, at::TensorOptions(test::kGpu).dtype(at::kBool));
  const auto x = make({2, 40, 24}).to(at::kBFloat16);
  for (const auto& [layout, view] :
       {std::pair{"as it is", x},
        {"a transposed view", x.mT().contiguous().mT()},
        {"a view of a padded one",
         at::constant_pad_nd(x, {0, 8, 0, 3}).narrow(1, 0, 40).narrow(2, 0, 24)},
        {"of a tall bank", orthogonalize(x, {.steps = muon_quintic(5)})},
        {"of a padded bank", orthogonalize(x, {.steps = muon_quintic(5), .multiple = 16})}}) {
    expect_kernels_bits(layout, view, [&](const at::Tensor& u) {
      auto stepped = p.clone();
      decayed_step(stepped, u, scalar(0.025), 0.04, 1.7);
      return stepped;
    });
    expect_kernels_bits(layout, view, [&](const at::Tensor& g) {
      auto momentum = b.clone();
      return at::stack(
          {nesterov_momentum(momentum, g, scalar(0.95), scalar(0.3), no_skip), momentum});
    });
  }
}

}  // namespace
}  // namespace tg
