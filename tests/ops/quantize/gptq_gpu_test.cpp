// Tests GPTQ's kernel against its reference: both round in the same places, so the bits are equal.
// Skipped without a GPU.
#include "ops/quantize/gptq.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/quantize/quantize_fixture.h"

namespace tg {
namespace {

class GptqGpu : public test::OnGpu<> {};

struct Case {
  std::int64_t rows, columns;
  GptqOptions options;
};
// One row and column, part of a block, parts of a warp's columns, whole blocks and more, more rows
// than one grid has warps; weights that are clipped.
const std::vector<Case> kCases = {
    {1, 1, {4, 6}},    {3, 2, {3, 4}},     {9, 33, {12.85, 6}}, {17, 128, {2, 6}},
    {40, 136, {4, 5}}, {64, 160, {14, 7}}, {5, 384, {11.5, 6}}, {3300, 20, {13, 8}},
};

at::Tensor weight_of(const Case& c) {
  auto w = test::normal({c.rows, c.columns}, 1, at::kFloat);
  w[0].zero_();
  w[c.rows - 1].fill_(0.25);
  return w;
}
at::Tensor hessian_of(const Case& c) {
  return test::random_hessian(c.columns, 2, {c.columns / 2});
}

GptqWeight quantized(const Case& c, at::Device device) {
  const auto factor = factor_hessian(hessian_of(c).to(device), "w");
  return gptq(weight_of(c).to(device), factor, c.options, "w");
}

TEST_F(GptqGpu, GivesTheBitsOfTheReference) {
  for (const auto& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.columns);
    const auto found = quantized(c, test::kGpu);
    set_fused(false);
    const auto expected = quantized(c, test::kGpu);
    set_fused(true);
    EXPECT_TRUE(test::is_same(found.weight.q.cpu(), expected.weight.q.cpu()));
    EXPECT_TRUE(test::is_same(found.weight.scale.cpu(), expected.weight.scale.cpu()));
  }
}

// Another library's GEMM sums in another order, which changes values next to a rounding boundary
// and thereby some later values of the row.
TEST_F(GptqGpu, GivesTheValuesOfTheCpuButForAFew) {
  for (const auto& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.columns);
    const auto found = quantized(c, test::kGpu);
    set_fused(false);
    const auto expected = quantized(c, at::kCPU);
    set_fused(true);
    EXPECT_LE((found.weight.q.cpu() != expected.weight.q).sum().item<std::int64_t>(),
              1 + c.rows * c.columns / 200);
    EXPECT_TRUE(test::is_close(found.weight.scale.cpu(), expected.weight.scale, 1e-3, 0));
  }
}

TEST_F(GptqGpu, CorrectionsAreThoseOfTheCpuButForAFew) {
  const auto w = test::normal({96, 64}, 1, at::kFloat) * at::linspace(0.1, 1, 64, at::kFloat);
  for (const auto& error : {w, w.t()}) {
    const auto found = low_rank_of(error.to(test::kGpu), LqerOptions{});
    const auto expected = low_rank_of(error, LqerOptions{});
    EXPECT_LE((found.a.q.cpu() != expected.a.q).sum().item<std::int64_t>(), 2);
    EXPECT_LE((found.b.q.cpu() != expected.b.q).sum().item<std::int64_t>(), 2);
    EXPECT_TRUE(test::is_close(found.b.scale.cpu(), expected.b.scale, 1e-3, 0));
  }
}

}  // namespace
}  // namespace tg
