#include "ops/norm/residual_norm.h"

#include "tests/ops/gradcheck.h"
#include "tests/ops/norm/residual_chain.h"

namespace tg {
namespace {

using test::ResidualChain;

constexpr double kEpsilon = 1.1920929e-07;

enum class Mix { scalar, vector };

ResidualChain all_terms(std::int64_t rows, std::int64_t width, Mix mix) {
  const auto data = [&](std::uint64_t seed) { return test::normal({rows, width}, seed); };
  const auto parameter = [&](std::uint64_t seed) { return test::normal({width}, seed); };
  return {.x = data(1),
          .branch = data(2),
          .skip = data(4),
          .skip_weight = parameter(5),
          .x0 = data(6),
          .mix = mix == Mix::vector ? test::normal({2, width}, 7) : test::normal({2}, 7)};
}

// residual_norm() that also returns the sum of x and branch.
ResidualNorm kept(const ResidualChain& in, double scale) {
  return residual_norm(in.terms(), {.scale = scale}, in.keep());
}

at::Tensor all(const ResidualNorm& out) {
  return at::cat({out.sum.flatten(), out.x.flatten(), out.y.rows().flatten(), out.x0.flatten()});
}

// Returns s, x', y and x0, concatenated, from the formula.
at::Tensor closed_form(const ResidualChain& in, double norm_scale) {
  const auto x = test::values_of(in.x), branch = test::values_of(in.branch),
             skip = test::values_of(in.skip), skip_weight = test::values_of(in.skip_weight),
             x0 = test::values_of(in.x0), mix = test::values_of(in.mix);
  const auto width = static_cast<std::size_t>(in.x.size(-1)), count = x.size();
  // m0 is mix[j * step], m1 is mix[m1 + j * step].
  const std::size_t step = in.mix.dim() == 2 ? 1 : 0, m1 = step == 1 ? width : 1;
  std::vector<double> sum(count), mixed(count), y(count);
  for (std::size_t row = 0; row < count; row += width) {
    double squares = 0;
    for (std::size_t j = 0; j < width; ++j) {
      const auto i = row + j;
      sum[i] = x[i] + branch[i];
      mixed[i] = mix[j * step] * (sum[i] + skip_weight[j] * skip[i]) + mix[m1 + j * step] * x0[i];
      squares += mixed[i] * mixed[i];
    }
    const double root = std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    for (std::size_t j = 0; j < width; ++j) y[row + j] = norm_scale * mixed[row + j] / root;
  }
  std::vector<double> expected;
  for (const std::vector<double>& part : {sum, mixed, y, x0})
    expected.insert(expected.end(), part.begin(), part.end());
  return test::tensor_of(expected, {static_cast<std::int64_t>(expected.size())});
}

TEST(ResidualNorm, AddsMixesAndNorms) {
  for (const auto mix : {Mix::vector, Mix::scalar}) {
    const auto in = all_terms(5, 24, mix);
    const auto out = kept(in, 0.25);
    EXPECT_TRUE(test::is_close(all(out), closed_form(in, 0.25), 1e-12, 1e-14));
  }
}

TEST(ResidualNorm, AnUndefinedTensorOmitsItsTerm) {
  const auto in = all_terms(3, 16, Mix::scalar);
  // Values for which a term of the closed form vanishes.
  const auto zeros = at::zeros({3, 16}, at::kDouble), ones = at::ones({16}, at::kDouble);
  const ResidualChain neutral{.x = in.x,
                              .branch = zeros,
                              .skip = zeros,
                              .skip_weight = ones,
                              .x0 = zeros,
                              .mix = test::tensor_of({1, 0}, {2})};
  const auto check = [&](const ResidualChain& terms) {
    auto whole = neutral;
    if (terms.branch.defined()) whole.branch = terms.branch;
    if (terms.skip.defined()) whole.skip = terms.skip;
    if (terms.skip_weight.defined()) whole.skip_weight = terms.skip_weight;
    if (terms.x0.defined()) whole.x0 = terms.x0;
    if (terms.mix.defined()) whole.mix = terms.mix;
    auto out = kept(terms, 1);
    if (!out.x0.defined()) out.x0 = whole.x0;
    EXPECT_TRUE(test::is_close(all(out), closed_form(whole, 1), 1e-12, 1e-14));
  };
  check({.x = in.x});
  check({.x = in.x, .branch = in.branch});
  check({.x = in.x, .skip = in.skip, .skip_weight = in.skip_weight});
  check({.x = in.x, .x0 = in.x0, .mix = in.mix});
  EXPECT_FALSE(residual_norm({{.tensor = in.x}}).sum.defined());
  // Nothing to add or mix: the residual is not copied.
  EXPECT_EQ(residual_norm({{.tensor = in.x}}).x.data_ptr(), in.x.data_ptr());
}

TEST(ResidualNorm, RoundsParametersToTheDtypeOfTheData) {
  const auto fine = all_terms(4, 16, Mix::vector);
  const auto with_parameters = [&](at::ScalarType dtype) {
    return ResidualChain{.x = fine.x.to(at::kBFloat16),
                         .branch = fine.branch.to(at::kBFloat16),
                         .skip = fine.skip.to(at::kBFloat16),
                         .skip_weight = fine.skip_weight.to(dtype),
                         .x0 = fine.x0.to(at::kBFloat16),
                         .mix = fine.mix.to(dtype)};
  };
  const auto out = all(kept(with_parameters(at::kFloat), 1));
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(test::is_same(out, all(kept(with_parameters(at::kBFloat16), 1))));
}

// Returns f(terms) as a function of all their tensors.
template <class F>
testing::AssertionResult gradient_is_right(const F& f, const ResidualChain& in) {
  const auto of_tensors = [&](const at::Tensor& x, const at::Tensor& branch, const at::Tensor& skip,
                              const at::Tensor& skip_weight, const at::Tensor& x0,
                              const at::Tensor& mix) {
    return f(ResidualChain{
        .x = x, .branch = branch, .skip = skip, .skip_weight = skip_weight, .x0 = x0, .mix = mix});
  };
  return test::gradient_is_right(of_tensors, in.x, in.branch, in.skip, in.skip_weight, in.x0,
                                 in.mix);
}

TEST(ResidualNorm, GradientsAreRight) {
  const auto f = [](const ResidualChain& terms) { return all(kept(terms, 0.5)); };
  EXPECT_TRUE(gradient_is_right(f, all_terms(3, 8, Mix::vector)));
  EXPECT_TRUE(gradient_is_right(f, all_terms(3, 8, Mix::scalar)));
}

// Combinations that no kernel supports: weights on every term (a scalar, per channel, one per row),
// in any order, and two sums that have terms in common.
TEST(ResidualNorm, EveryTermMayHaveAWeightAndAnySumMayBeKept) {
  const auto data = [](std::uint64_t seed) { return test::normal({3, 8}, seed); };
  const auto f = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                    const at::Tensor& scalar, const at::Tensor& vector, const at::Tensor& row) {
    const auto first = residual_norm({{.tensor = a, .weight = scalar},
                                      {.tensor = b, .weight = row},
                                      {.tensor = c, .weight = vector}},
                                     {.scale = 0.5}, /*keep=*/2);
    const auto second = residual_norm({{.tensor = b, .weight = vector}, {.tensor = c}});
    return at::cat({first.sum, first.x, first.y.rows(), second.x, second.y.rows()});
  };
  const auto a = data(1), b = data(2), c = data(3), scalar = test::normal({}, 4),
             vector = test::normal({8}, 5), row = test::normal({3, 1}, 6);
  const auto kept = scalar * a + row * b, x = kept + vector * c, second = vector * b + c;
  const auto norm = [](const at::Tensor& sum) {
    return sum / (sum.square().mean(-1, true) + kEpsilon).sqrt();
  };
  EXPECT_TRUE(test::is_close(f(a, b, c, scalar, vector, row),
                             at::cat({kept, x, 0.5 * norm(x), second, norm(second)}), 1e-12,
                             1e-14));
  EXPECT_TRUE(test::gradient_is_right(f, a, b, c, scalar, vector, row));
}

TEST(ResidualNorm, TheGradientOfX0IsThatOfAllBlocks) {
  const auto three_blocks = [](ResidualChain terms) {
    for (int block = 0; block < 3; ++block) {
      const auto out = residual_norm(terms.terms());
      terms.x = out.x, terms.x0 = out.x0, terms.branch = out.y.rows();
    }
    return terms.branch;
  };
  EXPECT_TRUE(gradient_is_right(three_blocks, all_terms(2, 8, Mix::vector)));
}

}  // namespace
}  // namespace tg
