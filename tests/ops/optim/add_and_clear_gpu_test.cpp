// Tests that the kernel of add_and_clear() gives ATen's bits. Skipped without a GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/optim/add_and_clear.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class AddAndClearGpu : public test::OnGpu<> {};

at::Tensor drawn(std::int64_t count, std::uint64_t seed, at::ScalarType dtype) {
  return test::normal({count}, seed, at::kFloat).to(test::kGpu, dtype);
}

TEST_F(AddAndClearGpu, IsTheSumOfTheSameBitsInEveryDtypeAndClears) {
  for (const auto to_dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto from_dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const std::int64_t count : {1, 7, 8, 4099}) {
        const auto to = drawn(count, 1, to_dtype), from = drawn(count, 2, from_dtype);
        from.slice(0, count / 4, count / 2).zero_();  // some chunks whole
        const auto right = to.clone().add_(from);
        add_and_clear(to, from);
        EXPECT_TRUE(at::equal(to, right)) << to_dtype << ' ' << from_dtype << ' ' << count;
        EXPECT_EQ(from.count_nonzero().item<std::int64_t>(), 0);
      }
    }
  }
}

TEST_F(AddAndClearGpu, AddsNothingInASkippedStepAndStillClears) {
  const auto zero = at::zeros({}, at::TensorOptions(test::kGpu).dtype(at::kFloat));
  for (const bool skips : {true, false}) {
    const auto to = drawn(4099, 1, at::kBFloat16), from = drawn(4099, 2, at::kBFloat16);
    if (skips) from[77] = std::nan("");
    const auto right = skips ? to.clone() : to + from;
    add_and_clear(to, from, zero + (skips ? 1 : 0));
    EXPECT_TRUE(at::equal(to, right));
    EXPECT_EQ(from.count_nonzero().item<std::int64_t>(), 0);
  }
}

}  // namespace
}  // namespace tg
