// The expected values are from numpy 2.4.6: numpy.random.default_rng(seed), one call after the
// other.
#include "data/numpy_random.h"

#include <gtest/gtest.h>

#include <array>

namespace tg {
namespace {

using Numbers = std::vector<std::uint32_t>;

// Results of the calls, in the order of the test.
struct Drawn {
  std::uint64_t seed;
  std::uint32_t below_128;
  Numbers permutation_of_12;
  std::uint32_t below_2048;
  Numbers permutation_of_9;
  std::vector<std::size_t> choices;  // of 3 with probabilities .5, .3, .2
  double first, second;
  Numbers below_3e9;                    // rejection is frequent here
  std::uint64_t permutation_of_100000;  // Σ i·p[i]
};

const Drawn kDrawn[] = {
    {0,
     108,
     {9, 2, 7, 4, 5, 11, 0, 3, 6, 10, 8, 1},
     568,
     {6, 4, 2, 5, 1, 3, 7, 8, 0},
     {2, 1, 0, 0, 0, 0},
     0.6706244146936303,
     0.6471895115742501,
     {771899376u, 2292164753u, 1382764774u, 2414967521u, 2942506015u, 2850300951u, 2520934176u,
      2112003150u},
     250085101310262u},
    {1,
     60,
     {8, 11, 4, 7, 5, 0, 1, 9, 2, 10, 6, 3},
     526,
     {1, 3, 0, 6, 4, 5, 7, 8, 2},
     {1, 0, 0, 0, 0, 0},
     0.2623133404418495,
     0.7503646726300526,
     {186062205u, 841226273u, 1494735084u, 1455572922u, 350814038u, 2942211599u, 2247308671u,
      2884971580u},
     250015843858057u},
    {7,
     120,
     {6, 8, 0, 7, 4, 1, 10, 3, 11, 2, 5, 9},
     1023,
     {3, 8, 4, 6, 5, 2, 0, 7, 1},
     {1, 1, 2, 1, 1, 2},
     0.21530869823559895,
     0.16021203385784455,
     {2572347776u, 131826023u, 1334275968u, 424672636u, 1544666460u, 2910794018u, 1887678762u,
      1324193394u},
     249887125237314u},
    {123456789,
     115,
     {11, 5, 7, 4, 0, 3, 8, 10, 2, 1, 6, 9},
     1683,
     {8, 7, 0, 6, 4, 3, 5, 1, 2},
     {0, 2, 0, 1, 1, 1},
     0.9451174787814794,
     0.45946087145290726,
     {1834809660u, 694904907u, 1045520713u, 1892131541u, 2087446102u, 2896649629u, 623833046u,
      2991246534u},
     249905343357082u},
    {9223372036854775813u,
     104,
     {2, 3, 10, 1, 8, 7, 4, 11, 5, 0, 6, 9},
     129,
     {1, 8, 0, 6, 7, 4, 5, 2, 3},
     {2, 0, 1, 2, 0, 1},
     0.2415242158290477,
     0.2122981172206596,
     {310693586u, 2439692938u, 1788923861u, 2857847201u, 286738994u, 502093984u, 1742161977u,
      2725482819u},
     249673334876741u},
};

TEST(NumpyRandom, DrawsNumpysNumbersOfAnySeed) {
  for (const auto& expected : kDrawn) {
    SCOPED_TRACE(expected.seed);
    NumpyRandom random(expected.seed);
    EXPECT_EQ(random.integers(128), expected.below_128);
    EXPECT_EQ(random.permutation(12), expected.permutation_of_12);
    EXPECT_EQ(random.integers(2048), expected.below_2048);
    EXPECT_EQ(random.permutation(9), expected.permutation_of_9);
    for (const auto choice : expected.choices)
      EXPECT_EQ(random.choice(std::array{.5, .3, .2}), choice);
    EXPECT_EQ(random.random(), expected.first);
    EXPECT_EQ(random.random(), expected.second);
    for (const auto number : expected.below_3e9) EXPECT_EQ(random.integers(3'000'000'000), number);
    std::uint64_t sum = 0, i = 0;
    for (const auto index : random.permutation(100'000)) sum += i++ * index;
    EXPECT_EQ(sum, expected.permutation_of_100000);
  }
}

// Doubles consume whole 64-bit numbers and leave the stored half unchanged.
TEST(NumpyRandom, HalvesA64BitNumberTheLowHalfFirst) {
  NumpyRandom halves(0), whole(0);
  const auto first = whole.next64(), second = whole.next64();
  EXPECT_EQ(first, 0xa30febcfd9c2825f);
  EXPECT_EQ(halves.next32(), first & 0xffffffff);
  EXPECT_EQ(halves.random(), static_cast<double>(second >> 11) * 0x1p-53);
  EXPECT_EQ(halves.next32(), first >> 32);
}

TEST(NumpyRandom, DrawsNothingWhereThereIsNoChoice) {
  NumpyRandom random(7), untouched(7);
  EXPECT_EQ(random.integers(1), 0u);
  EXPECT_EQ(random.permutation(0), Numbers());
  EXPECT_EQ(random.permutation(1), Numbers{0});
  EXPECT_EQ(random.next64(), untouched.next64());
}

}  // namespace
}  // namespace tg
