#include "model/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace tg {
namespace {

constexpr std::int64_t kSeed = 42;
// Fewer than ATen's vectorized draws, a multiple of 16, and others.
constexpr std::int64_t kCounts[] = {1, 15, 16, 17, 31, 4096, 4099};

at::Generator of_aten() {
  return at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(kSeed));
}

TEST(Generator, NormalNumbersAreThoseOfAten) {
  for (const auto dtype : {at::kFloat, at::kBFloat16})
    for (const auto count : kCounts)
      for (const double std : {1.0, 0.005}) {
        Generator generator(kSeed);
        auto expected = of_aten();
        for (int draw = 0; draw < 2; ++draw)
          EXPECT_TRUE(at::equal(generator.normal({count}, std, dtype),
                                at::empty({count}, dtype).normal_(0.0, std, expected)))
              << count << " of " << dtype << ", draw " << draw;
      }
}

TEST(Generator, ABf16DrawHasEveryPairOfUniformNumbers) {
  constexpr std::int64_t kMany = 2'000'000;
  auto expected = of_aten();
  EXPECT_TRUE(at::equal(Generator(kSeed).normal({kMany}, 1, at::kBFloat16),
                        at::empty({kMany}, at::kBFloat16).normal_(0.0, 1.0, expected)));
}

TEST(Generator, SkippedNumbersAreThoseOfADraw) {
  for (const auto count : kCounts) {
    Generator skips(kSeed), draws(kSeed);
    skips.skip_normal({count});
    draws.normal({count});
    EXPECT_TRUE(at::equal(skips.normal({33}), draws.normal({33}))) << count;
  }
}

}  // namespace
}  // namespace tg
