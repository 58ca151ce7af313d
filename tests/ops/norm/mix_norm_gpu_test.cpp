// Tests the kernels of mix_norm against the reference in fp64. Skipped without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/norm/mix_norm.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

constexpr auto kDevice = test::kGpu;

// How a term is weighted, and whether its tensor is read twice.
enum class Weight { none, number, by_row, shared_column };
struct TermOf {
  Weight weight = Weight::none;
  bool shared = false;
};
struct Call {
  const char* name;
  std::vector<TermOf> terms;
  bool normed = true, uses_x = true, uses_y = true, defers = false;
  std::int64_t padding = 0;  // channels excluded from the mean
};

const std::vector<Call> kCalls{
    {.name = "two numbers", .terms = {{Weight::number}, {Weight::number}}},
    {.name = "the sum alone", .terms = {{Weight::number}, {Weight::by_row}}, .normed = false},
    {.name = "an entry", .terms = {{Weight::none, true}, {Weight::shared_column, true}}},
    {.name = "a middle",
     .terms = {{Weight::number},
               {Weight::number},
               {Weight::shared_column, true},
               {Weight::shared_column, true}}},
    {.name = "a deferred middle",
     .terms = {{Weight::none}, {Weight::number}, {Weight::by_row}},
     .defers = true},
    {.name = "six terms, padded",
     .terms = {{Weight::none, true},
               {Weight::shared_column, true},
               {Weight::by_row},
               {Weight::shared_column},
               {Weight::number, true},
               {Weight::by_row, true}},
     .padding = 3},
    {.name = "only y is used", .terms = {{Weight::none}, {Weight::by_row}}, .uses_x = false},
    {.name = "only x' is used",
     .terms = {{Weight::by_row}, {Weight::number}, {Weight::none}},
     .uses_y = false},
};

struct Case {
  at::ScalarType dtype;
  double tolerance;  // as of residual_norm's test
};
using Named = std::vector<std::pair<std::string, at::Tensor>>;

class MixNormGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  // Returns outputs and gradients, computed in `dtype` from inputs rounded to the tested dtype. A
  // shared tensor is a term of a second call too, after which both losses are added.
  static Named run(const Call& call, std::int64_t batch, std::int64_t rows, std::int64_t width,
                   at::Device device, at::ScalarType dtype) {
    std::uint64_t seed = 1;
    Named leaves;
    const auto make = [&](at::IntArrayRef shape, bool number) {
      const auto rounded = number ? at::kFloat : GetParam().dtype;
      return test::normal(shape, seed++, rounded)
          .tanh()
          .to(rounded)
          .to(device, dtype == at::kDouble ? at::kDouble : rounded);
    };
    const auto leaf = [&](const std::string& name, at::IntArrayRef shape, bool number = false) {
      auto tensor = make(shape, number).set_requires_grad(true);
      leaves.emplace_back(name, tensor);
      return tensor;
    };
    const auto columns = shared(leaf("columns", {batch, rows, 7}));
    MixTerms terms, others;
    for (std::size_t t = 0; t < call.terms.size(); ++t) {
      const auto& [weight, is_shared] = call.terms[t];
      auto x = SharedTensor{leaf(fmt::format("x{}", t), {batch, rows, width})};
      if (is_shared) x = shared(x.tensor);
      MixTerm term{.tensor = x.tensor, .shared = x.gradient};
      if (weight == Weight::number) term.weight = leaf(fmt::format("w{}", t), {}, true);
      if (weight == Weight::by_row) term.weight = leaf(fmt::format("w{}", t), {batch, rows, 1});
      if (weight == Weight::shared_column)
        term.weight = MixWeight(columns, static_cast<std::int64_t>(t) + 1);
      terms.push_back(term);
      if (is_shared) others.push_back(term);
    }
    Named all;
    torch::autograd::variable_list outputs, upstream;
    const auto use = [&](const char* name, const at::Tensor& output, bool used = true) {
      all.emplace_back(name, output);
      const auto gradient = make({batch, rows, width}, false);
      if (!used) return;
      outputs.push_back(output);
      upstream.push_back(gradient.to(output.scalar_type()));
    };
    if (call.normed) {
      const auto out = residual_norm(
          terms, {.scale = 0.5,
                  .channels = call.padding == 0 ? 0 : width - call.padding,
                  .form = call.defers ? NormedForm::deferred_scale : NormedForm::materialized});
      auto y = out.y.tensor();
      EXPECT_EQ(out.y.row_scale().defined(), call.defers && dtype == at::kBFloat16);
      if (out.y.row_scale().defined())
        y = y.to(at::kFloat) * out.y.row_scale().view({batch, rows, 1});
      use("x'", out.x, call.uses_x);
      use("y", y, call.uses_y);
    } else {
      use("x'", residual_sum(terms));
    }
    if (others.size() > 1) use("other", residual_sum(others));
    torch::autograd::backward(outputs, upstream);
    for (const auto& [name, tensor] : leaves)
      if (tensor.grad().defined()) all.emplace_back("d" + name, tensor.grad());
    return all;
  }

  static void check(const Call& call, std::int64_t batch, std::int64_t rows, std::int64_t width) {
    const auto found = run(call, batch, rows, width, kDevice, GetParam().dtype),
               exact = run(call, batch, rows, width, at::kCPU, at::kDouble);
    ASSERT_EQ(found.size(), exact.size()) << call.name;
    for (std::size_t i = 0; i < found.size(); ++i) {
      // x' is rounded, and so is a gradient: of two calls, or of a deferred y, twice.
      const auto tolerance = 3 * GetParam().tolerance;
      const double magnitude = exact[i].second.square().mean().sqrt().item<double>();
      EXPECT_TRUE(test::is_close(found[i].second.cpu(), exact[i].second, 2 * tolerance,
                                 tolerance * magnitude + 1e-30))
          << found[i].first << " of " << call.name << ", " << rows << " rows of " << width;
    }
  }
};

TEST_P(MixNormGpu, EveryCallMatchesTheReference) {
  for (const auto& call : kCalls)
    for (const std::int64_t width : {64, 512, 768, 1032}) check(call, 2, 19, width);
}

TEST_P(MixNormGpu, EveryWidthMatchesTheReference) {
  for (const std::int64_t width : {16, 248, 264, 520, 776, 2048})
    for (const std::int64_t rows : {3, 70}) check(kCalls[5], 1, rows, width);
}

TEST_P(MixNormGpu, MoreRowsThanTheGridHolds) {
  for (const auto at : {0, 3, 5}) check(kCalls[static_cast<std::size_t>(at)], 1, 9000, 768);
}

TEST_P(MixNormGpu, TwiceTheSameBits) {
  const auto twice = [] { return run(kCalls[5], 1, 5003, 768, kDevice, GetParam().dtype); };
  const auto first = twice(), second = twice();
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(at::equal(first[i].second, second[i].second)) << first[i].first;
}

TEST_P(MixNormGpu, OtherTermsRunTheReference) {
  const auto x = test::normal({3, 5, 64}, 1, GetParam().dtype).to(kDevice);
  const auto vector = test::normal({64}, 2, at::kFloat).to(kDevice);
  EXPECT_TRUE(mix_norm_supports({{.tensor = x}, {.tensor = x}}));
  EXPECT_FALSE(mix_norm_supports({{.tensor = x}})) << "one term";
  EXPECT_FALSE(mix_norm_supports({{.tensor = x}, {.tensor = x, .weight = vector}}));
  EXPECT_FALSE(mix_norm_supports({{.tensor = x}, {.tensor = x.narrow(1, 0, 1)}}));
  EXPECT_FALSE(mix_norm_supports(MixTerms(7, {.tensor = x})));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, MixNormGpu,
                         ::testing::Values(Case{.dtype = at::kFloat, .tolerance = 1e-5},
                                           Case{.dtype = at::kBFloat16, .tolerance = 1.0 / 256},
                                           Case{.dtype = at::kHalf, .tolerance = 1.0 / 2048}),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param.dtype));
                         });

}  // namespace
}  // namespace tg
