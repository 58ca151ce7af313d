#include "ops/attention/projection/qk_norm_rope.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 3, kHeads = 4, kKv = 2, kDim = 6, kRopeDims = 4;
constexpr std::int64_t kRow = (kHeads + 2 * kKv) * kDim;

RopeTable table() {
  return make_rope_table(kTokens, {.dims = kRopeDims}, at::kDouble, at::kCPU);
}

const QkvInputs kInputs{.heads = kHeads, .kv_heads = kKv};

at::Tensor projection(std::uint64_t seed) {
  return test::normal({kBatch, kTokens, kRow}, seed);
}

TEST(QkNormRope, QAndKAreNormalisedAndRotatedAndQIsScaled) {
  auto in = kInputs;
  const auto qkv = projection(1);
  in.q_gain = test::normal({kHeads}, 2);
  const auto out = qk_norm_rope(qkv, in, table());
  ASSERT_EQ(out.q.sizes(), at::IntArrayRef({kBatch, kTokens, kHeads, kDim}));
  ASSERT_EQ(out.k.sizes(), at::IntArrayRef({kBatch, kTokens, kKv, kDim}));
  const auto from = qkv.accessor<double, 3>();
  const auto q = out.q.accessor<double, 4>(), k = out.k.accessor<double, 4>();
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t h = 0; h < kHeads + kKv; ++h) {
        double n[kDim], squares = 0;
        for (int i = 0; i < kDim; ++i) {
          n[i] = from[b][t][h * kDim + i];
          squares += n[i] * n[i];
        }
        for (auto& x : n) x /= std::sqrt(squares / kDim + 1.1920929e-07);
        double rotated[kDim] = {n[0], n[1], n[2], n[3], n[4], n[5]};
        for (int i = 0; i < kRopeDims / 2; ++i) {
          const double angle = static_cast<double>(t) * std::pow(1e4, -2.0 * i / kRopeDims);
          rotated[i] = n[i] * std::cos(angle) + n[i + 2] * std::sin(angle);
          rotated[i + 2] = n[i + 2] * std::cos(angle) - n[i] * std::sin(angle);
        }
        for (int i = 0; i < kDim; ++i) {
          if (h < kHeads)
            EXPECT_NEAR(q[b][t][h][i], rotated[i] * in.q_gain[h].item<double>(), 1e-13);
          else
            EXPECT_NEAR(k[b][t][h - kHeads][i], rotated[i], 1e-13);
        }
      }
    }
  }
}

TEST(QkNormRope, WithoutAResidualTheValueIsTheProjectionAndItsEmbedding) {
  auto in = kInputs;
  const auto qkv = projection(3);
  const auto own = qkv.narrow(-1, (kHeads + kKv) * kDim, kKv * kDim).unflatten(-1, {kKv, -1});
  const auto plain = qk_norm_rope(qkv, in, table());
  EXPECT_TRUE(test::is_same(plain.v, own));
  EXPECT_TRUE(test::is_same(plain.exclusive_v, own));
  EXPECT_FALSE(plain.first_v.defined());
  in.value_embedding = test::normal({kBatch, kTokens, kKv * kDim}, 4);
  const auto embedded = qk_norm_rope(qkv, in, table());
  EXPECT_TRUE(test::is_same(embedded.v, own + in.value_embedding.view_as(own)));
}

TEST(QkNormRope, TheFirstLayersValueIsPassedOnAndAddedByItsWeight) {
  auto in = kInputs;
  const auto qkv = projection(5);
  in.value_residual = true;
  const auto own = qkv.narrow(-1, (kHeads + kKv) * kDim, kKv * kDim).unflatten(-1, {kKv, -1});
  const auto first = qk_norm_rope(qkv, in, table());
  EXPECT_TRUE(test::is_same(first.v, own));
  EXPECT_TRUE(test::is_same(first.first_v, own));
  in.first_v = test::normal({kBatch, kTokens, kKv, kDim}, 6);
  in.first_weight = at::full({}, 0.3, at::kDouble);
  const auto later = qk_norm_rope(qkv, in, table());
  EXPECT_TRUE(test::is_close(later.v, own + 0.3 * in.first_v, 1e-14, 1e-14));
  EXPECT_TRUE(test::is_same(later.first_v, in.first_v));
}

TEST(QkNormRope, AnOffsetTakesTheSecondHalfOfAKeyFromTheTokenBefore) {
  auto in = kInputs;
  const auto qkv = projection(7);
  const auto plain = qk_norm_rope(qkv, in, table());
  in.key_offset = true;
  const auto offset = qk_norm_rope(qkv, in, table());
  EXPECT_TRUE(test::is_same(offset.q, plain.q));
  EXPECT_TRUE(test::is_same(offset.v, plain.v));
  const auto half = kDim / 2;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const auto now = plain.k.select(1, t), before = plain.k.select(1, t == 0 ? 0 : t - 1),
               found = offset.k.select(1, t);
    EXPECT_TRUE(test::is_same(found.narrow(-1, 0, half), now.narrow(-1, 0, half))) << t;
    EXPECT_TRUE(test::is_same(found.narrow(-1, half, half), before.narrow(-1, half, half))) << t;
  }
}

TEST(QkNormRope, TheOffsetsHalvesAreThoseWithoutPadding) {
  auto in = kInputs;
  in.key_offset = true;
  const auto qkv = projection(8);
  const auto expected = qk_norm_rope(qkv, in, table());
  const auto padded = at::constant_pad_nd(qkv.unflatten(-1, {-1, kDim}), {0, 4}).flatten(-2);
  in.channels = kDim;
  EXPECT_TRUE(test::is_close(qk_norm_rope(padded, in, table()).k,
                             at::constant_pad_nd(expected.k, {0, 4}), 1e-13, 1e-14));
}

TEST(QkNormRope, AnOffsetsGradientIsRight) {
  const auto keys = [](const at::Tensor& qkv) {
    return qk_norm_rope(qkv, {.heads = 0, .kv_heads = 2, .key_offset = true}, table()).k;
  };
  EXPECT_TRUE(test::gradient_is_right(keys, test::normal({2, kTokens, 4 * kDim}, 14)));
}

// Two layers, so that first_v's gradient passes through the second.
TEST(QkNormRope, GradientIsRight) {
  const auto two_layers = [&](const at::Tensor& qkv_of_first, const at::Tensor& qkv_of_second,
                              const at::Tensor& q_gain, const at::Tensor& value_embedding,
                              const at::Tensor& first_weight) {
    QkvInputs in{.heads = kHeads,
                 .kv_heads = kKv,
                 .q_gain = q_gain,
                 .value_embedding = value_embedding,
                 .value_residual = true};
    const auto one = qk_norm_rope(qkv_of_first, in, table());
    in.first_v = one.first_v;
    in.first_weight = first_weight;
    const auto two = qk_norm_rope(qkv_of_second, in, table());
    return at::cat({one.q, one.k, one.v, two.q, two.k, two.v, two.exclusive_v, two.first_v}, 2);
  };
  const auto qkv_of_first = test::normal({1, kTokens, kRow}, 9),
             qkv_of_second = test::normal({1, kTokens, kRow}, 10);
  const auto q_gain = test::normal({kHeads}, 11),
             value_embedding = test::normal({1, kTokens, kKv * kDim}, 12),
             first_weight = test::normal({}, 13);
  EXPECT_TRUE(test::gradient_is_right(two_layers, qkv_of_first, qkv_of_second, q_gain,
                                      value_embedding, first_weight));
}

}  // namespace
}  // namespace tg
