#include "ops/attention/projection/rope.h"

#include "tests/ops/attention/record_89.h"
#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

// Rotates the first `dims` of each head in halves, element by element.
at::Tensor rotate_by_hand(const at::Tensor& x, std::int64_t dims, double base) {
  auto y = x.to(at::kDouble).clone();
  const auto from = x.to(at::kDouble).contiguous();
  const auto in = from.accessor<double, 4>();
  auto out = y.accessor<double, 4>();
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t t = 0; t < x.size(1); ++t) {
      for (std::int64_t h = 0; h < x.size(2); ++h) {
        for (std::int64_t k = 0; k < dims / 2; ++k) {
          const double frequency =
              std::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(dims));
          const double angle = static_cast<double>(t) * frequency;
          const double x1 = in[b][t][h][k], x2 = in[b][t][h][k + dims / 2];
          out[b][t][h][k] = x1 * std::cos(angle) + x2 * std::sin(angle);
          out[b][t][h][k + dims / 2] = -x1 * std::sin(angle) + x2 * std::cos(angle);
        }
      }
    }
  }
  return y;
}

TEST(RopeBase, GrowsOnlyBeyond1024Tokens) {
  const RopeOptions options{.dims = 16};
  EXPECT_EQ(rope_base(1, options), 1e4);
  EXPECT_EQ(rope_base(1024, options), 1e4);
  EXPECT_NEAR(rope_base(2048, options), 22081.79, 0.005);  // the digits in the specification
  EXPECT_NEAR(rope_base(4096, options), 1e4 * std::pow(4.0, 16.0 / 14.0), 1e-8);
  EXPECT_NEAR(rope_base(2048, {.dims = 64, .base = 500}), 500 * std::pow(2.0, 64.0 / 62.0), 1e-9);
}

TEST(RopeTable, HoldsTheAnglesOfEveryPosition) {
  const RopeOptions options{.dims = 16};
  for (const std::int64_t length : {1024, 2048}) {
    const auto fine = make_rope_table(length, options, at::kDouble, at::kCPU);
    const auto coarse = make_rope_table(length, options, at::kFloat, at::kCPU);
    ASSERT_EQ(fine.cos.sizes(), at::IntArrayRef({length, 8}));
    const double base = length == 1024 ? 1e4 : 1e4 * std::pow(2.0, 16.0 / 14.0);
    std::vector<double> cos, sin;
    for (std::int64_t t = 0; t < length; ++t) {
      for (int k = 0; k < 8; ++k) {
        cos.push_back(std::cos(static_cast<double>(t) * std::pow(base, -k / 8.0)));
        sin.push_back(std::sin(static_cast<double>(t) * std::pow(base, -k / 8.0)));
      }
    }
    // Angles of up to 2047 are known to a few units of 2^-53, in fp32 of 2^-24.
    EXPECT_TRUE(test::is_close(fine.cos, test::tensor_of(cos, {length, 8}), 0, 2e-12));
    EXPECT_TRUE(test::is_close(fine.sin, test::tensor_of(sin, {length, 8}), 0, 2e-12));
    EXPECT_TRUE(test::is_close(coarse.cos, test::tensor_of(cos, {length, 8}), 0, 4e-4));
    EXPECT_TRUE(test::is_close(coarse.sin, test::tensor_of(sin, {length, 8}), 0, 4e-4));
  }
}

TEST(RopeTable, RoundsFrequenciesOnlyWhereTheReferenceDoes) {
  const RopeOptions exact{.dims = 16}, quirk{.dims = 16, .base = 1e4, .bf16_frequencies = true};
  const auto table = [](std::int64_t length, const RopeOptions& options, at::ScalarType dtype) {
    return make_rope_table(length, options, dtype, at::kCPU).sin;
  };
  EXPECT_TRUE(test::is_same(table(1024, quirk, at::kFloat), table(1024, exact, at::kFloat)));
  EXPECT_TRUE(test::is_same(table(1025, quirk, at::kBFloat16), table(1025, exact, at::kBFloat16)));
  EXPECT_FALSE(test::is_same(table(1024, quirk, at::kBFloat16), table(1024, exact, at::kBFloat16)));
  const auto exponents = at::arange(0, 16, 2, at::kFloat) / 16;
  const auto rounded = at::pow(1e4, exponents).reciprocal().to(at::kBFloat16).to(at::kFloat);
  const auto expected = at::outer(at::arange(1024, at::kFloat), rounded).sin().to(at::kBFloat16);
  EXPECT_TRUE(test::is_same(table(1024, quirk, at::kBFloat16), expected));
}

TEST(Rope, RotatesHalvesByExplicitAngles) {
  const auto x = test::normal({2, 7, 3, 8}, 1);
  const auto table = make_rope_table(7, {.dims = 8}, at::kDouble, at::kCPU);
  EXPECT_TRUE(test::is_close(rope(x, table), rotate_by_hand(x, 8, 1e4), 1e-13, 1e-13));
}

TEST(Rope, LeavesTheRestOfTheHeadUntouched) {
  const auto x = test::normal({2, 9, 2, 10}, 2);
  const auto table = make_rope_table(9, {.dims = 4, .base = 100}, at::kDouble, at::kCPU);
  const auto y = rope(x, table);
  EXPECT_TRUE(test::is_close(y, rotate_by_hand(x, 4, 100), 1e-13, 1e-13));
  EXPECT_TRUE(test::is_same(y.narrow(-1, 4, 6), x.narrow(-1, 4, 6)));
  EXPECT_TRUE(test::is_same(y.select(1, 0), x.select(1, 0)));  // position 0 is rotated by 0
}

TEST(Rope, PreservesNorms) {
  const auto x = test::normal({1, 64, 2, 16}, 3);
  const auto table = make_rope_table(64, {.dims = 16}, at::kDouble, at::kCPU);
  EXPECT_TRUE(test::is_close(rope(x, table).norm(2, {-1}), x.norm(2, {-1}), 1e-13, 0));
}

TEST(Rope, DotProductsDependOnTheDistanceAlone) {
  constexpr std::int64_t kLength = 40;
  const auto table = make_rope_table(kLength, {.dims = 8}, at::kDouble, at::kCPU);
  const auto everywhere = [&](std::uint64_t seed) {
    const auto vector = test::normal({1, 1, 1, 8}, seed).expand({1, kLength, 1, 8});
    return rope(vector, table).reshape({kLength, 8});
  };
  const auto products =
      at::matmul(everywhere(4), everywhere(5).t());  // [position of q, position of k]
  const auto moved = products.slice(0, 1).slice(1, 1);
  EXPECT_TRUE(test::is_close(moved, products.slice(0, 0, -1).slice(1, 0, -1), 0, 1e-12));
}

// Interleaved pairs are half-split ones of reordered channels.
TEST(Rope, RotatesInterleavedPairs) {
  const auto x = test::normal({2, 9, 2, 10}, 7);
  RopeOptions options{.dims = 6, .base = 100};
  const auto halves = rope(x.index_select(-1, at::tensor({0, 2, 4, 1, 3, 5, 6, 7, 8, 9})),
                           make_rope_table(9, options, at::kDouble, at::kCPU));
  options.interleaved = true;
  const auto y = rope(x, make_rope_table(9, options, at::kDouble, at::kCPU));
  EXPECT_TRUE(
      test::is_same(y, halves.index_select(-1, at::tensor({0, 3, 1, 4, 2, 5, 6, 7, 8, 9}))));
  const auto whole = x.narrow(-1, 0, 6);
  EXPECT_TRUE(test::is_same(rope(whole, make_rope_table(9, options, at::kDouble, at::kCPU)),
                            y.narrow(-1, 0, 6)));
}

TEST(Rope, OfPairedHeadsTakesTwoPositionsPerToken) {
  constexpr std::int64_t kTokens = 5, kHeads = 4;
  const auto x = test::normal({2, kTokens, kHeads, 6}, 8);
  for (const bool interleaved : {false, true}) {
    const RopeOptions options{.dims = 4, .base = 100, .interleaved = interleaved};
    const auto table = make_rope_table(2 * kTokens, options, at::kDouble, at::kCPU);
    const auto paired = make_paired_rope_table(kTokens, options, at::kDouble, at::kCPU);
    ASSERT_EQ(paired.cos.sizes(), at::IntArrayRef({kTokens, 2, 2}));
    const auto y = rope(x, paired);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t h = 0; h < kHeads; ++h) {
        const auto head = [&](const at::Tensor& of) { return of.narrow(1, t, 1).narrow(2, h, 1); };
        EXPECT_TRUE(test::is_same(head(y), rope(head(x), table.narrow(2 * t + h % 2, 1))));
      }
    }
  }
}

TEST(Rope, GivesTheHeadsOfRecord89) {
  const auto reference = test::record_89_attention();
  const auto x = reference.at("rotary.x").unsqueeze(0);
  const RopeOptions options{
      .dims = 64, .frequencies = reference.at("rotary.frequencies"), .interleaved = true};
  const auto plain = rope(x, make_rope_table(x.size(1), options, at::kFloat, at::kCPU)),
             paired = rope(x, make_paired_rope_table(x.size(1), options, at::kFloat, at::kCPU));
  EXPECT_TRUE(test::is_close(plain[0], reference.at("rotary.y"), 1e-6, 3e-7));
  EXPECT_TRUE(test::is_close(paired[0], reference.at("rotary.y_paired"), 1e-6, 3e-7));
}

TEST(Rope, GradientIsRight) {
  for (const bool interleaved : {false, true}) {
    const RopeOptions options{.dims = 4, .interleaved = interleaved};
    for (const auto& table : {make_rope_table(4, options, at::kDouble, at::kCPU),
                              make_paired_rope_table(4, options, at::kDouble, at::kCPU)}) {
      const auto f = [&](const at::Tensor& x) { return rope(x, table); };
      EXPECT_TRUE(test::gradient_is_right(f, test::normal({1, 4, 2, 6}, 6)));
    }
  }
}

}  // namespace
}  // namespace tg
