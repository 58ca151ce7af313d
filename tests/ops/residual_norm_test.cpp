#include "ops/norm/residual_norm.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

constexpr double kEpsilon = 1.1920929e-07;

// Inputs in the order of ResidualTerms.
std::vector<at::Tensor> inputs(std::int64_t rows, std::int64_t width, bool mix_is_vector) {
  const auto data = [&](std::uint64_t seed) { return test::normal({rows, width}, seed); };
  const auto mix =
      mix_is_vector ? std::vector<std::int64_t>{2, width} : std::vector<std::int64_t>{2};
  return {data(1),
          data(2),
          test::normal({width}, 3),
          data(4),
          test::normal({width}, 5),
          data(6),
          test::normal(mix, 7)};
}

ResidualTerms terms_of(const std::vector<at::Tensor>& in) {
  return {in[0], in[1], in[2], in[3], in[4], in[5], in[6]};
}

at::Tensor all(const ResidualNorm& out) {
  return at::cat({out.sum.flatten(), out.x.flatten(), out.y.flatten(), out.x0.flatten()});
}

// s, x', y and x0 one after another, from the formula.
at::Tensor closed_form(const std::vector<at::Tensor>& in, double norm_scale) {
  std::vector<std::vector<double>> v;
  for (const auto& tensor : in) v.push_back(test::values_of(tensor));
  const auto width = static_cast<std::size_t>(in[0].size(-1)), count = v[0].size();
  const std::size_t step = in[6].dim() == 2 ? 1 : 0, m1 = step == 1 ? width : 1;
  std::vector<double> sum(count), mixed(count), y(count);
  for (std::size_t row = 0; row < count; row += width) {
    double squares = 0;
    for (std::size_t j = 0; j < width; ++j) {
      const auto i = row + j;
      sum[i] = v[0][i] + v[2][j] * v[1][i];
      mixed[i] = v[6][j * step] * (sum[i] + v[4][j] * v[3][i]) + v[6][m1 + j * step] * v[5][i];
      squares += mixed[i] * mixed[i];
    }
    const double root = std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    for (std::size_t j = 0; j < width; ++j) y[row + j] = norm_scale * mixed[row + j] / root;
  }
  std::vector<double> expected;
  for (const auto* part : {&sum, &mixed, &y, &v[5]})
    expected.insert(expected.end(), part->begin(), part->end());
  return test::tensor_of(expected, {static_cast<std::int64_t>(expected.size())});
}

TEST(ResidualNorm, AddsMixesAndNorms) {
  for (const bool vector : {true, false}) {
    const auto in = inputs(5, 24, vector);
    const auto out = residual_norm(terms_of(in), 0.25, /*keep_sum=*/true);
    EXPECT_TRUE(test::is_close(all(out), closed_form(in, 0.25), 1e-12, 1e-14));
  }
}

TEST(ResidualNorm, AnUndefinedTensorLeavesItsTermOut) {
  const auto zeros = at::zeros({3, 16}, at::kDouble), ones = at::ones({16}, at::kDouble);
  const auto one_zero = test::tensor_of({1, 0}, {2});
  const auto in = inputs(3, 16, false);
  const auto check = [&](const ResidualTerms& terms, const std::vector<at::Tensor>& whole) {
    auto out = residual_norm(terms, 1, true);
    if (!out.x0.defined()) out.x0 = whole[5];
    EXPECT_TRUE(test::is_close(all(out), closed_form(whole, 1), 1e-12, 1e-14));
  };
  check({.x = in[0]}, {in[0], zeros, ones, zeros, ones, zeros, one_zero});
  check({.x = in[0], .branch = in[1]}, {in[0], in[1], ones, zeros, ones, zeros, one_zero});
  check({.x = in[0], .branch = in[1], .branch_scale = in[2]},
        {in[0], in[1], in[2], zeros, ones, zeros, one_zero});
  check({.x = in[0], .skip = in[3], .skip_weight = in[4]},
        {in[0], zeros, ones, in[3], in[4], zeros, one_zero});
  check({.x = in[0], .x0 = in[5], .mix = in[6]}, {in[0], zeros, ones, zeros, ones, in[5], in[6]});
  EXPECT_FALSE(residual_norm({.x = in[0]}, 1, false).sum.defined());
  // Nothing to add or mix: the residual is not copied.
  EXPECT_EQ(residual_norm({.x = in[0]}, 1, false).x.data_ptr(), in[0].data_ptr());
}

TEST(ResidualNorm, RoundsParametersToTheTypeOfTheData) {
  auto in = inputs(4, 16, true);
  for (const std::size_t i : {0, 1, 3, 5}) in[i] = in[i].to(at::kBFloat16);
  auto single = in;
  for (const std::size_t i : {2, 4, 6}) {
    single[i] = in[i].to(at::kFloat);
    in[i] = in[i].to(at::kBFloat16);
  }
  const auto out = all(residual_norm(terms_of(single), 1, true));
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(test::is_same(out, all(residual_norm(terms_of(in), 1, true))));
}

TEST(ResidualNorm, GradientsAreRight) {
  const auto f = [](const std::vector<at::Tensor>& in) {
    return all(residual_norm(terms_of(in), 0.5, true));
  };
  EXPECT_TRUE(test::gradient_is_right(f, inputs(3, 8, true)));
  EXPECT_TRUE(test::gradient_is_right(f, inputs(3, 8, false)));
}

TEST(ResidualNorm, TheGradientOfX0IsThatOfAllBlocks) {
  const auto f = [](const std::vector<at::Tensor>& in) {
    auto terms = terms_of(in);
    at::Tensor y;
    for (int block = 0; block < 3; ++block) {
      const auto out = residual_norm(terms, 1, false);
      terms.x = out.x, terms.x0 = out.x0, terms.branch = y = out.y;
    }
    return y;
  };
  EXPECT_TRUE(test::gradient_is_right(f, inputs(2, 8, true)));
}

}  // namespace
}  // namespace tg
