// Tests NorMuon's kernels against their reference in fp64. Skipped without a GPU.
#include <gtest/gtest.h>

#include "ops/fused.h"
#include "ops/optim/normuon_update.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class NorMuonUpdateGpu : public test::OnGpu<> {};

at::Tensor skip_of(bool skip) {
  return at::full({}, skip, at::TensorOptions(test::kGpu).dtype(at::kBool));
}

// One number per row or per column.
at::Tensor moments_of(const at::Tensor& x, bool by_row) {
  auto sizes = x.sizes().vec();
  sizes[by_row ? 2 : 1] = 1;
  return at::rand(sizes, at::TensorOptions(test::kGpu).dtype(at::kFloat)).mul_(0.01);
}

TEST_F(NorMuonUpdateGpu, MatchesTheReferenceByRowAndByColumn) {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {1, 8, 8}, {3, 70, 264}, {2, 264, 72}, {4, 768, 768}, {2, 3072, 768}, {2, 768, 3072}};
  for (const auto& shape : shapes) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      for (const auto& [by_row, skip] : {std::pair{false, false}, {true, false}, {false, true}}) {
        at::manual_seed(shape[1]);
        const auto x = (at::randn(shape) * 0.1).to(test::kGpu, dtype);
        const auto q = moments_of(x, by_row);
        const auto exact_q = q.to(at::kDouble);
        const auto exact = normalized_variance(x.to(at::kDouble), exact_q, 0.95, skip_of(skip));
        const auto before = q.clone();
        const auto y = normalized_variance(x, q, 0.95, skip_of(skip));
        const auto what = ::testing::Message()
                          << at::IntArrayRef(shape) << " " << dtype << by_row << skip;
        if (skip) {
          EXPECT_TRUE(at::equal(q, before)) << what;
        }
        EXPECT_TRUE(test::is_close(q.cpu(), exact_q.cpu(), 1e-6, 1e-9)) << what;
        const double rounding = dtype == at::kFloat ? 2e-6 : 1.0 / 256;
        EXPECT_TRUE(test::is_close(y.cpu(), exact.cpu(), rounding, 1e-7)) << what;
      }
    }
  }
}

// In fp32, in which the kernels and ATen round in different places.
TEST_F(NorMuonUpdateGpu, ATransposedIterateTakesTheKernels) {
  const auto x = at::randn({2, 72, 264}).to(test::kGpu);
  const auto update = [&](const at::Tensor& of) {
    at::manual_seed(1);
    return normalized_variance(of, moments_of(of, /*by_row=*/false), 0.95, skip_of(false));
  };
  const auto expected = update(x);
  EXPECT_TRUE(at::equal(update(x.mT().contiguous().mT()), expected));
  set_fused(false);
  EXPECT_FALSE(at::equal(update(x), expected)) << "no kernel at all";
  set_fused(true);
}

}  // namespace
}  // namespace tg
