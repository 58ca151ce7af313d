#include "ops/attention/composed_attention.h"

#include <torch/csrc/autograd/autograd.h>

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

constexpr std::int64_t kHeads = 3, kDim = 4;
constexpr double kScale = 0.7;

struct Inputs {
  at::Tensor q, k, v, pre, post;

  Inputs(std::int64_t rows, std::int64_t tokens, at::ScalarType dtype = at::kDouble) {
    std::uint64_t seed = 1;
    for (auto* x : {&q, &k, &v})
      *x = test::normal({rows, tokens, kHeads, kDim}, seed++, dtype).set_requires_grad(true);
    for (auto* x : {&pre, &post})
      *x = test::normal({rows, tokens, kHeads}, seed++, dtype).set_requires_grad(true);
  }
  at::Tensor composed(std::int64_t window, const std::optional<Documents>& documents = {}) const {
    return composed_attention(
        q, k, v,
        {.pre = pre, .post = post, .scale = kScale, .window = window, .documents = documents});
  }
  std::vector<at::Tensor> leaves() const { return {q, k, v, pre, post}; }
};

// The formula with scores of all queries and keys.
at::Tensor by_hand(const Inputs& in, std::int64_t window,
                   const std::optional<Documents>& documents) {
  const auto positions = at::arange(in.q.size(1));
  const auto distance = positions.unsqueeze(1) - positions.unsqueeze(0);
  auto hidden = distance.lt(0).logical_or(distance.ge(window)).unsqueeze(0);
  if (documents)
    hidden = hidden.logical_or(documents->ends.unsqueeze(1).ne(documents->ends.unsqueeze(2)));
  const auto scores = kScale * at::einsum("bthd,bshd->bhts", {in.q, in.k});
  const auto shares = scores.masked_fill(hidden.unsqueeze(1), -1e300).softmax(-1);
  const auto w1 = in.pre / (in.pre.square().mean(-1, true) + 1e-6).sqrt();
  return at::einsum("bth,btg,bgts,bshd->bthd", {in.post, w1, shares, in.v});
}

void expect_the_formula(const Inputs& in, std::int64_t window,
                        const std::optional<Documents>& documents) {
  const auto y = in.composed(window, documents), expected = by_hand(in, window, documents);
  EXPECT_TRUE(test::is_close(y, expected, 1e-12, 1e-12)) << window;
  const auto upstream = test::normal(y.sizes(), 9);
  const auto found = torch::autograd::grad({y}, in.leaves(), {upstream}),
             right = torch::autograd::grad({expected}, in.leaves(), {upstream});
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(test::is_close(found[i], right[i], 1e-11, 1e-12)) << window << ", input " << i;
}

// Two rows of 23 tokens.
Documents some_documents() {
  return documents_at(at::tensor({0, 1, 1, 14, 23, 46, 46}, at::kInt), 2, 23, 23);
}

TEST(ComposedAttention, IsTheFormulaWithItsGradients) {
  const Inputs in(2, 23);
  for (const std::int64_t window : {1, 2, 5, 12, 22, 23, 40}) {
    expect_the_formula(in, window, {});
    expect_the_formula(in, window, some_documents());
  }
}

TEST(ComposedAttention, GradientIsRight) {
  const auto composed = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& pre, const at::Tensor& post) {
    const auto documents = documents_at(at::tensor({0, 2, 5}, at::kInt), 1, 5, 3);
    return composed_attention(
        q, k, v, {.pre = pre, .post = post, .scale = kScale, .window = 2, .documents = documents});
  };
  const Inputs in(1, 5);
  EXPECT_TRUE(test::gradient_is_right(composed, in.q, in.k, in.v, in.pre, in.post));
}

TEST(ComposedAttention, OtherDocumentsChangeNothing) {
  const Inputs in(2, 23);
  const at::NoGradGuard no_grad;
  const auto before = in.composed(12, some_documents());
  for (const auto& x : {in.q, in.k, in.v}) x.narrow(1, 0, 14).add_(1);
  const auto after = in.composed(12, some_documents());
  EXPECT_TRUE(test::is_same(after[0].slice(0, 14), before[0].slice(0, 14)));
  EXPECT_FALSE(test::is_close(after[1].slice(0, 14), before[1].slice(0, 14), 0, 1e-3));
}

TEST(ComposedAttention, TheLastQueriesSeeWhatTheySeeAmongAll) {
  const Inputs in(2, 23);
  const at::NoGradGuard no_grad;
  for (const std::int64_t window : {1, 5, 22, 30}) {
    const auto all = in.composed(window);
    for (const std::int64_t count : {1, 4, 23}) {
      const auto last = [&](const at::Tensor& x) { return x.narrow(1, 23 - count, count); };
      const auto found = composed_attention(
          last(in.q), in.k, in.v,
          {.pre = last(in.pre), .post = last(in.post), .scale = kScale, .window = window});
      EXPECT_TRUE(test::is_close(found, last(all), 1e-12, 1e-13)) << window << ", " << count;
    }
  }
}

TEST(ComposedAttention, OfHalfPrecisionIsThatOfItsInputs) {
  const Inputs half(1, 23, at::kBFloat16);
  Inputs exact = half;
  for (auto* x : {&exact.q, &exact.k, &exact.v, &exact.pre, &exact.post}) *x = x->to(at::kDouble);
  const auto y = half.composed(5);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(test::is_close(y, exact.composed(5), 0.02, 0.05));
}

}  // namespace
}  // namespace tg
