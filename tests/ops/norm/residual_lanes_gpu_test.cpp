// Tests the kernels of residual_norm with lanes against the reference in fp64. Skipped without a
// GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/ops/norm/residual_lanes.h"
#include "tests/ops/on_gpu.h"

namespace tg {
namespace {

using test::LanesCall;

const LanesCall kAll{
    .name = "two lanes with a skip", .skip = true, .mix = true, .accumulates = true};
const LanesCall kFinal{.name = "the mean", .lanes = 1};
const std::vector<LanesCall> kCases{
    kAll,
    kFinal,
    {.name = "two lanes", .mix = true},
    {.name = "a factor of lane 0", .own_skip = true, .mix = true, .accumulates = true},
    {.name = "lanes begin", .terms = {true, true}, .weighted = false, .mix = true},
    {.name = "lanes begin with a skip",
     .terms = {true, true},
     .weighted = false,
     .skip = true,
     .mix = true,
     .accumulates = true},
    {.name = "lanes begin of one tensor",
     .terms = {true},
     .weighted = false,
     .own_skip = true,
     .mix = true},
    {.name = "without a mix", .skip = true},
    {.name = "deferred", .skip = true, .mix = true, .form = NormedForm::deferred_scale},
    {.name = "padded", .skip = true, .mix = true, .padded = true},
    {.name = "norms alone are used", .skip = true, .mix = true, .unused = "01x"},
    {.name = "norms are not used", .skip = true, .mix = true, .unused = "my"},
    {.name = "the mean, accumulated", .lanes = 1, .accumulates = true},
    {.name = "the mean, deferred", .lanes = 1, .form = NormedForm::deferred_scale},
    {.name = "one lane ends the stream",
     .lanes = 1,
     .terms = {true, false, true, true},
     .accumulates = true},
};

struct Case {
  at::ScalarType dtype;
  double tolerance;  // as in ResidualNormGpu
};

class ResidualLanesGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  static test::NamedRows run(const LanesCall& call, std::int64_t rows, std::int64_t width) {
    return test::run_lanes(call, rows, width, test::kGpu, GetParam().dtype, GetParam().dtype);
  }
  static void check(const LanesCall& call, std::int64_t rows, std::int64_t width) {
    const auto found = run(call, rows, width),
               exact = test::run_lanes(call, rows, width, at::kCPU, GetParam().dtype, at::kDouble);
    // Two roundings, the first of values that may be several times larger: lane 0 before the mix,
    // the gradient of a deferred y before its scale.
    const double tolerance = 4 * GetParam().tolerance;
    ASSERT_EQ(found.size(), exact.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double magnitude = exact[i].second.square().mean().sqrt().item<double>();
      EXPECT_TRUE(test::is_close(found[i].second.cpu(), exact[i].second, 2 * tolerance,
                                 tolerance * magnitude + 1e-30))
          << found[i].first << " of " << call.name << ", " << rows << " rows of " << width;
    }
  }
};

TEST_P(ResidualLanesGpu, EveryCombinationOfTermsMatchesTheReference) {
  for (const auto& call : kCases) {
    // One warp with a partial chunk and with two chunks, one block per row.
    for (const std::int64_t width : {64, 512, 768}) check(call, 37, width);
  }
}

TEST_P(ResidualLanesGpu, EveryWidthMatchesTheReference) {
  for (const std::int64_t width : {8, 16, 248, 264, 520, 776, 1032, 2048}) {
    for (const std::int64_t rows : {1, 3, 130}) check(kAll, rows, width);
    check(kFinal, 3, width);
  }
}

TEST_P(ResidualLanesGpu, MoreRowsThanTheGridHolds) {
  for (const std::int64_t width : {512, 768}) {
    for (const auto& call : {kAll, kFinal}) check(call, 5003, width);
  }
}

TEST_P(ResidualLanesGpu, TwiceTheSameBits) {
  const auto first = run(kAll, 5003, 512), second = run(kAll, 5003, 512);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(at::equal(first[i].second, second[i].second)) << first[i].first;
}

// Three layer calls, as Blocks makes them, with an upstream gradient of the last x0, which the
// caller still holds: the gradient of x0 is the sum over all calls.
TEST_P(ResidualLanesGpu, TheGradientOfX0IsThatOfAllVisits) {
  const auto chain = [](at::Device device, at::ScalarType dtype) {
    std::uint64_t seed = 1;
    const auto row = [&] {
      return test::normal({9, 512}, seed++, GetParam().dtype).to(device, dtype);
    };
    const auto parameter = [&](at::IntArrayRef shape) {
      const auto drawn = test::normal(shape, seed++).tanh().to(at::kFloat);
      return drawn.to(device, dtype == at::kDouble ? at::kDouble : at::kFloat);
    };
    const auto x0 = row().set_requires_grad(true), upstream = row(), before = upstream.clone();
    const auto weights = parameter({2, 4}), mix = parameter({2, 512});
    LaneTerms terms{.terms = {{x0}}, .x0 = x0, .mix = mix};
    for (int visit = 0; visit < 3; ++visit) {
      const auto out = residual_norm(terms, {});
      terms.terms = {{out.lanes[0]}, {out.lanes[1]}, {out.y[0].rows()}, {out.y[1].rows()}};
      terms.weights = weights, terms.x0 = out.x0;
    }
    const auto last =
        residual_norm({.lanes = 1, .terms = terms.terms, .weights = weights.narrow(0, 0, 1)}, {});
    torch::autograd::backward({last.y[0].rows(), terms.x0}, {upstream, upstream});
    EXPECT_TRUE(at::equal(upstream, before)) << "the caller's gradient was written to";
    return x0.grad();
  };
  const auto found = chain(test::kGpu, GetParam().dtype), exact = chain(at::kCPU, at::kDouble);
  const double magnitude = exact.square().mean().sqrt().item<double>();
  // Four layer calls round the lanes, the mixed input and dx0 in turn.
  const double tolerance = 16 * GetParam().tolerance;
  EXPECT_TRUE(test::is_close(found.cpu(), exact, tolerance, tolerance * magnitude));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ResidualLanesGpu,
                         ::testing::Values(Case{at::kFloat, 1e-5}, Case{at::kBFloat16, 1.0 / 256},
                                           Case{at::kHalf, 1.0 / 2048}),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param.dtype));
                         });

}  // namespace
}  // namespace tg
