#include "ops/optim/orthogonalize.h"

#include <map>
#include <string>

#include "tests/ops/tensors.h"
#include "weights/safetensors/safetensors.h"

namespace tg {
namespace {

constexpr std::int64_t kSteps = 5;

double polynomial(double s, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
  }
  return s;
}

at::Tensor by_muon(const at::Tensor& x, std::int64_t steps = kSteps, std::int64_t multiple = 1) {
  return orthogonalize(x, {.steps = muon_quintic(steps), .multiple = multiple});
}

// Applies the polynomial to each singular value; the iteration keeps the singular vectors.
at::Tensor by_singular_values(const at::Tensor& x, std::int64_t steps) {
  const auto [u, s, vh] = at::linalg_svd(x, /*full_matrices=*/false);
  auto values = test::values_of(s / (x.norm() + 1e-7));
  for (auto& value : values) value = polynomial(value, steps);
  return at::matmul(u * test::tensor_of(values, s.sizes()), vh);
}

const std::vector<std::vector<std::int64_t>> kShapes = {{24, 24}, {16, 48}, {48, 16}, {1, 9}};

TEST(Orthogonalize, SendsSingularValuesThroughThePolynomial) {
  for (const auto& shape : kShapes) {
    const auto x = test::normal(shape, 1);
    for (const std::int64_t steps : {1, 3, 5}) {
      // A rounding error of 1e-16 grows by up to 3.4445 per step.
      EXPECT_TRUE(test::is_close(by_muon(x, steps), by_singular_values(x, steps), 0, 1e-11));
    }
  }
}

TEST(Orthogonalize, SingularValuesEndNearOne) {
  for (const auto& shape : {std::vector<std::int64_t>{64, 256}, {256, 64}, {96, 200}}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto x = test::normal(shape, 2, dtype);
      const auto y = by_muon(x);
      ASSERT_EQ(y.scalar_type(), dtype);
      ASSERT_EQ(y.sizes(), x.sizes());
      const auto s = std::get<1>(at::linalg_svd(y.to(at::kDouble), false));
      EXPECT_GT(s.min().item<double>(), 0.6);
      EXPECT_LT(s.max().item<double>(), 1.3);
    }
  }
}

TEST(Orthogonalize, TransposingAndScalingCommute) {
  const auto x = test::normal({10, 30}, 3);
  EXPECT_TRUE(test::is_close(by_muon(x.t()), by_muon(x).t(), 0, 1e-12));
  // Exact except for the 1e-7 added to the norm.
  EXPECT_TRUE(test::is_close(by_muon(x * 1000), by_muon(x), 0, 1e-5));
}

// The next operation reads rows; transposing a whole bank would be a separate pass.
TEST(Orthogonalize, ATallMatrixIsWrittenRowByRow) {
  for (const auto& shape : kShapes) EXPECT_TRUE(by_muon(test::normal(shape, 6)).is_contiguous());
}

TEST(Orthogonalize, PaddingChangesNothing) {
  for (const auto& shape : kShapes) {
    const auto x = test::normal(shape, 5);
    EXPECT_TRUE(test::is_close(by_muon(x, kSteps, 10), by_muon(x), 0, 1e-12));
  }
}

TEST(Orthogonalize, EveryMatrixOfABatchStandsAlone) {
  auto x = test::normal({2, 3, 12, 20}, 4);
  x[0][1] *= 1e6;
  x[1][0] *= 0;
  const auto y = by_muon(x);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_TRUE(test::is_close(y[i][j], by_muon(x[i][j]), 0, 1e-12));
    }
  }
  EXPECT_TRUE(test::is_same(y[1][0], at::zeros({12, 20}, at::kDouble)));
}

// Values of the reference implementation in fp32 for a tall and a wide matrix. "steps7" has as many
// steps as "steps5", because Polar Express has no more.
TEST(Orthogonalize, PolarExpressGivesTheReferenceValues) {
  const auto loaded = load_safetensors(TEST_DATA_DIR "/polar_express.safetensors");
  const std::map<std::string, at::Tensor> reference(loaded.begin(), loaded.end());
  for (const std::string shape : {"tall.", "wide."}) {
    const auto& x = reference.at(shape + "in");
    const auto expect_reference = [&](const std::string& name,
                                      const OrthogonalizeOptions& options) {
      // fp32 errors are amplified by up to 8.2·4.0·3.9·3.3·2.3 near a singular value of zero.
      EXPECT_TRUE(test::is_close(orthogonalize(x, options), reference.at(shape + name), 0, 1e-5))
          << shape << name;
    };
    for (const std::int64_t steps : {1, 3, 5, 7})
      expect_reference("steps" + std::to_string(steps), {.steps = polar_express(steps)});
    expect_reference("rows_normalised_then_5", {.steps = polar_express(5), .normalize_rows = true});
  }
}

// Values of NorMuon's reference implementation in fp32.
TEST(Orthogonalize, PolarExpressWithAFactorOfSafetyGivesTheReferenceValues) {
  const auto loaded = load_safetensors(TEST_DATA_DIR "/record_43_updates.safetensors");
  const std::map<std::string, at::Tensor> reference(loaded.begin(), loaded.end());
  const auto y = orthogonalize(reference.at("polar.x"),
                               {.steps = polar_express(5), .safety = 1.02, .epsilon = 1e-6});
  EXPECT_TRUE(test::is_close(y, reference.at("polar.out"), 0, 1e-5));
}

TEST(Orthogonalize, ARowOfZerosIsNormalizedToZeros) {
  auto x = test::normal({6, 10}, 7);
  x[2] *= 0;
  const auto y = orthogonalize(x, {.steps = polar_express(5), .normalize_rows = true});
  EXPECT_TRUE(test::is_same(y[2], at::zeros({10}, at::kDouble)));
  EXPECT_TRUE(at::isfinite(y).all().item<bool>());
}

}  // namespace
}  // namespace tg
