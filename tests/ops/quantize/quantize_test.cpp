// Expects the quantizers to give the same bits as the Python script, which uses at::quantile and a
// search on the host.
#include "ops/quantize/quantize.h"

#include <algorithm>
#include <limits>

#include "tests/ops/quantize/quantize_fixture.h"

namespace tg {
namespace {

at::Tensor clip_of(const at::Tensor& w, double p) {
  return at::quantile(w.abs(), p, 1);
}

QuantizedWeight int6_reference(const at::Tensor& w) {
  QuantizedWeight best;
  double least = std::numeric_limits<double>::infinity();
  for (double p : {0.999, 0.9995, 0.9999, 0.99999, 1.0}) {
    const auto clip = p < 1 ? clip_of(w, p) : w.abs().amax(1);
    const auto scale = (clip / 31).clamp_min(1.0 / 31).to(at::kHalf);
    const auto wide = scale.to(at::kFloat).unsqueeze(1);
    const auto q = (w / wide).round().clamp(-31, 31).to(at::kChar);
    const double error = (w - q.to(at::kFloat) * wide).pow(2).mean().item<double>();
    if (error < least) {
      least = error;
      best = {q, scale};
    }
  }
  return best;
}

QuantizedWeight int8_reference(const at::Tensor& w) {
  const auto clip = clip_of(w, 0.9999984).unsqueeze(1);
  const auto clipped = at::maximum(at::minimum(w, clip), -clip);
  const auto scale = (clip / 127).clamp_min(1.0 / 127);
  return {(clipped / scale).round().clamp(-127, 127).to(at::kChar), scale.squeeze(1).to(at::kHalf)};
}

void expect_same(const QuantizedWeight& found, const QuantizedWeight& expected) {
  EXPECT_TRUE(test::is_same(found.q, expected.q));
  EXPECT_TRUE(test::is_same(found.scale, expected.scale));
}

// One and two columns, remainders of a vector, more columns than the highest percentile resolves;
// weights below, near and far above the minimum scale.
TEST(Quantize, GivesThePythonScriptsBits) {
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {1, 1}, {31, 1}, {5, 2}, {17, 3}, {64, 65}, {129, 777}, {192, 512}, {512, 192}, {3, 3001}};
  uint64_t seed = 0;
  for (const auto& [rows, columns] : shapes) {
    for (double size : {0.01, 0.3, 1.0, 40.0}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", size " << size);
      const auto w = test::normal({rows, columns}, ++seed, at::kFloat) * size;
      expect_same(quantize_int6(w), int6_reference(w));
      expect_same(quantize_int8(w), int8_reference(w));
    }
  }
}

// With outliers each percentile is the best for some matrix; the scales show which one was chosen.
TEST(Quantize, FindsTheBestPercentileForTheWholeMatrix) {
  std::vector<bool> chosen(5);
  for (double outlier : {1.0, 4.0, 8.0, 16.0, 60.0, 300.0}) {
    for (uint64_t seed = 1; seed < 4; ++seed) {
      auto w = test::normal({6, 4000}, seed, at::kFloat);
      w.select(1, 7).mul_(outlier);
      const auto expected = int6_reference(w);
      expect_same(quantize_int6(w), expected);
      size_t i = 0;
      for (double p : {0.999, 0.9995, 0.9999, 0.99999, 1.0})
        chosen[i] = chosen[i] || ((clip_of(w, p) / 31).to(at::kHalf)).equal(expected.scale), ++i;
    }
  }
  EXPECT_GE(std::count(chosen.begin(), chosen.end(), true), 3);
}

TEST(Quantize, RowsOfZerosConstantsAndTiesAreExact) {
  auto w = test::normal({6, 40}, 1, at::kFloat);
  w[0].zero_();
  w[1].fill_(0.25);
  w[2].fill_(-31);
  w[3].copy_(at::arange(40) * 0.5 - 10);  // half steps at a scale of 1
  w[3][0] = 31;
  w[4].fill_(1e-30);
  expect_same(quantize_int6(w), int6_reference(w));
  expect_same(quantize_int8(w), int8_reference(w));
  const auto zero = at::zeros({3, 5});
  for (const auto& quantized : {quantize_int6(zero), quantize_int8(zero)}) {
    EXPECT_TRUE(test::is_same(dequantize(quantized), zero));
    EXPECT_GT(quantized.scale.min().item<double>(), 0);
  }
}

// In a constant matrix all percentiles, and so all errors, are equal. In a row of 3000 with three
// larger elements the percentiles from .9995 on are equal.
TEST(Quantize, TakesTheFirstOfEqualPercentiles) {
  auto w = at::full({4, 3000}, 0.3f);
  expect_same(quantize_int6(w), int6_reference(w));
  w.slice(1, 0, 3).fill_(5);
  expect_same(quantize_int6(w), int6_reference(w));
}

TEST(Quantize, OtherShapesHaveOneScale) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{70001}, {3, 50, 60}, {}, {1}}) {
    const auto w = test::normal(shape, 5, at::kFloat) * 3;
    const auto found = quantize_int8(w);
    const double clip = at::quantile(w.abs().flatten(), 0.9999984).item<double>();
    const auto scale = at::scalar_tensor(clip / 127);
    expect_same(found,
                {(w.clamp(-clip, clip) / scale).round().clamp(-127, 127).to(at::kChar), scale});
    EXPECT_TRUE(test::is_close(dequantize(found), w.clamp(-clip, clip), 0, 0.51 * clip / 127));
  }
  const auto zero = quantize_int8(at::zeros({9}));
  EXPECT_EQ(zero.scale.item<float>(), 1);
}

TEST(Quantize, TakesStridedAndHalfPrecisionWeightsWithoutTheirGradient) {
  const auto w = test::normal({40, 30}, 3, at::kFloat);
  expect_same(quantize_int6(w.t()), int6_reference(w.t().contiguous()));
  const auto half = w.to(at::kBFloat16);
  expect_same(quantize_int8(half), int8_reference(half.to(at::kFloat)));
  const auto leaf = w.clone().set_requires_grad(true);
  EXPECT_FALSE(dequantize(quantize_int6(leaf)).requires_grad());
}

TEST(Quantize, GateRowsHaveTheReferenceImplementationsBits) {
  expect_same(quantize_gate_rows(test::quantize_fixture("gate.weight")),
              {test::quantize_fixture("gate.q"), test::quantize_fixture("gate.scale")});
  const auto zero = quantize_gate_rows(at::zeros({3, 5}));
  EXPECT_TRUE(test::is_same(dequantize(zero), at::zeros({3, 5})));
  EXPECT_GT(zero.scale.min().item<double>(), 0);
}

TEST(Quantize, DequantizesByRows) {
  const QuantizedWeight weight{test::tensor_of({1, -2, 3, 4}, {2, 2}, at::kChar),
                               test::tensor_of({0.5, 2}, {2}, at::kHalf)};
  EXPECT_TRUE(
      test::is_same(dequantize(weight), test::tensor_of({0.5, -1, 6, 8}, {2, 2}, at::kFloat)));
}

}  // namespace
}  // namespace tg
