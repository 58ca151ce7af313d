#include "ops/attention/paired_heads.h"

#include <optional>

#include "ops/attention/attention.h"
#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

// Two rows of 9 tokens, with documents of 3, 4 and 2 and of 1 and 8 tokens, an empty one behind.
Documents some_documents() {
  return documents_at(at::tensor({0, 3, 7, 9, 10, 18, 18}, at::kInt), 2, 9, 8);
}

at::Tensor paired_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<Documents>& documents, std::int64_t window) {
  AttentionOptions options{.window = window};
  if (documents) options.documents = paired_documents(*documents);
  return unpaired_heads(
      causal_attention(paired_heads(q), paired_heads(k), paired_heads(v), options));
}

// Head h of token t is the element 2t + (h ≥ H/2) of a row of heads h mod H/2.
at::Tensor attend_by_hand(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const std::optional<Documents>& documents, std::int64_t window) {
  const auto tokens = q.size(1), heads = q.size(2);
  const auto token = at::arange(tokens).repeat_interleave(heads),
             head = at::arange(heads).repeat({tokens});
  const auto element = 2 * token + head.ge(heads / 2), place = head.remainder(heads / 2);
  const auto distance = element.unsqueeze(1) - element.unsqueeze(0);
  auto hidden = place.unsqueeze(1).ne(place.unsqueeze(0)).logical_or(distance.lt(0)).unsqueeze(0);
  if (window > 0) hidden = hidden.logical_or(distance.ge(window));
  if (documents) {
    const auto ends = documents->ends.index_select(1, token);
    hidden = hidden.logical_or(ends.unsqueeze(1).ne(ends.unsqueeze(2)));
  }
  const auto flat = [](const at::Tensor& x) { return x.flatten(1, 2); };
  const auto scores = at::matmul(flat(q), flat(k).mT()) / std::sqrt(static_cast<double>(q.size(3)));
  return at::matmul(scores.masked_fill(hidden, -1e300).softmax(-1), flat(v)).view(q.sizes());
}

TEST(PairedHeads, AreTheSameMemory) {
  const auto x = test::normal({2, 3, 6, 4}, 1);
  const auto paired = paired_heads(x);
  ASSERT_EQ(paired.sizes(), at::IntArrayRef({2, 6, 3, 4}));
  EXPECT_TRUE(paired.is_alias_of(x));
  for (std::int64_t t = 0; t < 3; ++t) {
    EXPECT_TRUE(test::is_same(paired.select(1, 2 * t), x.select(1, t).narrow(1, 0, 3)));
    EXPECT_TRUE(test::is_same(paired.select(1, 2 * t + 1), x.select(1, t).narrow(1, 3, 3)));
  }
  EXPECT_TRUE(test::is_same(unpaired_heads(paired), x));
  const auto strided = test::normal({2, 3, 8, 4}, 2).narrow(2, 1, 6);
  EXPECT_TRUE(test::is_same(paired_heads(strided), paired_heads(strided.contiguous())));
}

TEST(PairedHeads, HaveDocumentsOfTwiceTheLength) {
  const auto tokens = some_documents(), elements = paired_documents(tokens);
  const auto expected = documents_at(tokens.offsets * 2, 2, 18, 16);
  EXPECT_TRUE(test::is_same(elements.offsets, expected.offsets));
  EXPECT_EQ(elements.longest, expected.longest);
  EXPECT_TRUE(test::is_same(elements.ends, expected.ends));
  EXPECT_TRUE(paired_documents(tokens).ends.is_same(elements.ends));  // of another layer
}

TEST(PairedHeads, AttendToTheElementsOfTheirPlaceInWindowAndDocument) {
  const auto q = test::normal({2, 9, 6, 4}, 3), k = test::normal({2, 9, 6, 4}, 4),
             v = test::normal({2, 9, 6, 4}, 5);
  for (const std::int64_t window : {0, 1, 2, 5, 40}) {
    for (const auto& documents : {std::optional<Documents>(), std::optional(some_documents())}) {
      EXPECT_TRUE(test::is_close(paired_attention(q, k, v, documents, window),
                                 attend_by_hand(q, k, v, documents, window), 1e-12, 1e-13))
          << "window " << window;
    }
  }
}

TEST(PairedHeads, OtherDocumentsChangeNothing) {
  auto q = test::normal({2, 9, 6, 4}, 6), k = test::normal({2, 9, 6, 4}, 7),
       v = test::normal({2, 9, 6, 4}, 8);
  const auto before = paired_attention(q, k, v, some_documents(), 0).clone();
  for (const auto& x : {q, k, v}) x.narrow(1, 0, 3).add_(1);
  const auto after = paired_attention(q, k, v, some_documents(), 0);
  EXPECT_TRUE(test::is_same(after[0].slice(0, 3), before[0].slice(0, 3)));
}

TEST(PairedHeads, GradientIsRight) {
  const auto attention = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto documents = documents_at(at::tensor({0, 1, 4}, at::kInt), 1, 4, 3);
    return paired_attention(q, k, v, documents, 3);
  };
  EXPECT_TRUE(test::gradient_is_right(attention, test::normal({1, 4, 4, 2}, 9),
                                      test::normal({1, 4, 4, 2}, 10),
                                      test::normal({1, 4, 4, 2}, 11)));
}

}  // namespace
}  // namespace tg
