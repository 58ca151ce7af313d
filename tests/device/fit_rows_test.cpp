#include "device/fit_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tg {
namespace {

constexpr std::int64_t kFixed = 1000, kRow = 100;

// A pass whose memory is linear in its rows, on a device with `usable` bytes.
class LinearPass {
 public:
  explicit LinearPass(std::int64_t usable, std::int64_t jump_at = 1 << 20, std::int64_t chunk = 0)
      : usable_(usable), jump_at_(jump_at), chunk_(chunk) {}
  std::int64_t largest_of(const std::vector<std::int64_t>& choices) {
    return largest_fit(choices, usable_, [this](std::int64_t rows) -> std::optional<std::int64_t> {
      tried.push_back(rows);
      const auto peak = kFixed + rows * kRow + (rows >= jump_at_ ? kFixed : 0) +
                        std::min(rows, chunk_) * 3 * kRow;
      if (peak > usable_) return {};
      return peak;
    });
  }
  std::vector<std::int64_t> tried;

 private:
  std::int64_t usable_, jump_at_, chunk_;
};

using Rows = std::vector<std::int64_t>;

TEST(FitRows, TheLargestThatFitsIsFoundWithoutTryingLargerOnes) {
  LinearPass pass(kFixed + 16 * kRow);
  EXPECT_EQ(pass.largest_of(divisors(48)), 16);
  EXPECT_EQ(pass.tried, (Rows{1, 2, 16}));
}

TEST(FitRows, EverythingFitsInAmpleMemory) {
  EXPECT_EQ(LinearPass(1 << 20).largest_of(divisors(48)), 48);
  EXPECT_EQ(LinearPass(1 << 20).largest_of({1}), 1);
}

// The extrapolation from two small passes is verified, and corrected if it does not hold.
TEST(FitRows, APassThatTakesMoreThanExpectedGoesDownToOneThatFits) {
  LinearPass pass(kFixed + 16 * kRow, /*jump_at=*/8);
  EXPECT_EQ(pass.largest_of(divisors(48)), 6);
  EXPECT_EQ(pass.tried, (Rows{1, 2, 16, 12, 8, 6}));
}

// The first four rows need more memory each, like the logits of a head that is computed in chunks.
TEST(FitRows, APassThatTakesLessThanTheSmallestPromiseIsFound) {
  LinearPass pass(kFixed + 24 * kRow + 12 * kRow, /*jump_at=*/1 << 20, /*chunk=*/4);
  EXPECT_EQ(pass.largest_of(divisors(48)), 24);
  EXPECT_EQ(pass.tried, (Rows{1, 2, 8, 16, 24}));
}

TEST(FitRows, TheSmallestIsTakenWhereTheNextDoesNotFit) {
  EXPECT_EQ(LinearPass(kFixed + kRow).largest_of(divisors(48)), 1);
  EXPECT_EQ(LinearPass(kFixed + 2 * kRow).largest_of(divisors(48)), 2);
}

TEST(FitRows, OnACpuNothingIsMeasured) {
  bool ran = false;
  const auto fit = fit_rows({1, 2, 4}, 0, at::kCPU, [&](std::int64_t) { ran = true; });
  EXPECT_EQ(fit.rows, 4);
  EXPECT_EQ(fit.usable, 0);
  EXPECT_FALSE(ran);
}

TEST(FitRows, ChoicesAscend) {
  EXPECT_EQ(divisors(12), (Rows{1, 2, 3, 4, 6, 12}));
  EXPECT_EQ(divisors(7), (Rows{1, 7}));
  EXPECT_EQ(halves(48), (Rows{1, 3, 6, 12, 24, 48}));
}

}  // namespace
}  // namespace tg
