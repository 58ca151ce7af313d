#include "ops/pad.h"

#include "tests/ops/tensors.h"

namespace tg {
namespace {

TEST(RowMultiple, IsOfSixteenBytesInHalfPrecisionOnAGpu) {
  const at::Device kGpu(at::kCUDA, 0);
  EXPECT_EQ(row_multiple(kGpu, at::kBFloat16), 8);
  EXPECT_EQ(row_multiple(kGpu, at::kHalf), 8);
  EXPECT_EQ(row_multiple(kGpu, at::kFloat), 1);
  EXPECT_EQ(row_multiple(at::kCPU, at::kBFloat16), 1);
}

TEST(PadTo, AddsZerosBehindEveryDimension) {
  const auto x = at::arange(1, 5, at::kDouble).view({2, 2});
  const auto expected = test::tensor_of({1, 2, 0, 3, 4, 0, 0, 0, 0}, {3, 3});
  EXPECT_TRUE(test::is_same(pad_to(x, {3, 3}), expected));
  EXPECT_TRUE(test::is_same(pad_last(x, 3), expected.narrow(0, 0, 2)));
  EXPECT_TRUE(pad_to(x, {2, 2}).is_alias_of(x));
  EXPECT_FALSE(pad_last(at::Tensor(), 3).defined());
}

TEST(PadHeads, AddsZerosBehindEachHead) {
  const auto x = at::arange(1, 5, at::kDouble).view({1, 4});
  EXPECT_TRUE(test::is_same(pad_heads(x, -1, 2, 3), test::tensor_of({1, 2, 0, 3, 4, 0}, {1, 6})));
  EXPECT_TRUE(
      test::is_same(pad_heads(x.t(), 0, 2, 3), test::tensor_of({1, 2, 0, 3, 4, 0}, {6, 1})));
  EXPECT_TRUE(pad_heads(x, -1, 2, 2).is_alias_of(x));
}

}  // namespace
}  // namespace tg
