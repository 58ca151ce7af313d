#include "ops/attention/attention.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/error.h"
#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

// softmax(q·kᵀ/√hd)·v over each query's own and earlier positions, element by element.
at::Tensor attend_by_hand(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const auto qc = q.to(at::kDouble).contiguous(), kc = k.to(at::kDouble).contiguous(),
             vc = v.to(at::kDouble).contiguous();
  auto y = at::zeros_like(qc);
  const auto qa = qc.accessor<double, 4>(), ka = kc.accessor<double, 4>(),
             va = vc.accessor<double, 4>();
  auto ya = y.accessor<double, 4>();
  const auto heads = q.size(2), kv_heads = k.size(2), dim = q.size(3);
  for (std::int64_t b = 0; b < q.size(0); ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto kv = h * kv_heads / heads;
      for (std::int64_t t = 0; t < q.size(1); ++t) {
        std::vector<double> share;
        double total = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          double product = 0;
          for (std::int64_t d = 0; d < dim; ++d) product += qa[b][t][h][d] * ka[b][s][kv][d];
          share.push_back(std::exp(product / std::sqrt(static_cast<double>(dim))));
          total += share.back();
        }
        for (std::int64_t s = 0; s <= t; ++s) {
          for (std::int64_t d = 0; d < dim; ++d) {
            ya[b][t][h][d] += share[static_cast<std::size_t>(s)] / total * va[b][s][kv][d];
          }
        }
      }
    }
  }
  return y;
}

class CausalAttention : public testing::TestWithParam<AttentionKernel> {
 protected:
  void SetUp() override { use_attention(GetParam()); }
  void TearDown() override { use_attention(AttentionKernel::flash); }
};

TEST_P(CausalAttention, IsASoftmaxOverThePast) {
  const auto q = test::normal({2, 9, 4, 8}, 1), k = test::normal({2, 9, 4, 8}, 2),
             v = test::normal({2, 9, 4, 8}, 3);
  const auto expected = attend_by_hand(q, k, v);
  EXPECT_TRUE(test::is_close(causal_attention(q, k, v), expected, 1e-12, 1e-12));
  const auto y = causal_attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat));
  // fp32: a few roundings of 2^-24 in the dot products and the exponential.
  EXPECT_TRUE(test::is_close(y, expected, 1e-5, 1e-6));
}

TEST_P(CausalAttention, SharesKeysAndValuesAmongConsecutiveQueryHeads) {
  for (const std::int64_t kv_heads : {1, 2, 3}) {
    const auto q = test::normal({2, 7, 6, 4}, 4), k = test::normal({2, 7, kv_heads, 4}, 5),
               v = test::normal({2, 7, kv_heads, 4}, 6);
    EXPECT_TRUE(test::is_close(causal_attention(q, k, v), attend_by_hand(q, k, v), 1e-12, 1e-12));
  }
}

TEST_P(CausalAttention, LaterTokensChangeNothingEarlier) {
  constexpr std::int64_t kLength = 12, kChanged = 7;
  auto q = test::normal({1, kLength, 4, 8}, 7), k = test::normal({1, kLength, 2, 8}, 8),
       v = test::normal({1, kLength, 2, 8}, 9);
  const auto before = causal_attention(q, k, v).clone();
  for (auto& part : {q, k, v}) part.select(1, kChanged).fill_(5);
  const auto after = causal_attention(q, k, v);
  EXPECT_TRUE(test::is_same(after.narrow(1, 0, kChanged), before.narrow(1, 0, kChanged)));
  EXPECT_FALSE(test::is_close(after.select(1, kChanged), before.select(1, kChanged), 0, 1e-3));
  EXPECT_FALSE(
      test::is_close(after.select(1, kChanged + 1), before.select(1, kChanged + 1), 0, 1e-3));
}

TEST_P(CausalAttention, PaddedHeadsAttendAsThoseWithoutPadding) {
  const auto q = test::normal({2, 9, 4, 6}, 13), k = test::normal({2, 9, 2, 6}, 14),
             v = test::normal({2, 9, 2, 6}, 15);
  const auto pad = [](const at::Tensor& x) { return at::constant_pad_nd(x, {0, 2}); };
  const auto expected = pad(attend_by_hand(q, k, v));
  EXPECT_TRUE(test::is_close(causal_attention(pad(q), pad(k), pad(v), {.channels = 6}), expected,
                             1e-12, 1e-12));
  const auto of_last = causal_attention_of_last(pad(q.narrow(1, 4, 5)), pad(k), pad(v), 6);
  EXPECT_TRUE(test::is_close(of_last, expected.narrow(1, 4, 5), 1e-12, 1e-12));
}

TEST_P(CausalAttention, GradientIsRight) {
  const auto q = test::normal({1, 4, 4, 4}, 10), k = test::normal({1, 4, 2, 4}, 11),
             v = test::normal({1, 4, 2, 4}, 12);
  const auto attention = [](const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value) {
    return causal_attention(query, key, value);
  };
  EXPECT_TRUE(test::gradient_is_right(attention, q, k, v));
}

INSTANTIATE_TEST_SUITE_P(Kernels, CausalAttention,
                         testing::Values(AttentionKernel::flash, AttentionKernel::math),
                         [](const auto& kernel) { return attention_name(kernel.param); });

const at::Device kGpu(at::kCUDA, 0);  // only queried, never used

TEST(ChooseAttention, AutoTakesTheFastestKernelThatSupportsTheCall) {
  EXPECT_EQ(choose_attention("auto", kGpu, at::kBFloat16, 64), AttentionKernel::cudnn);
  EXPECT_EQ(choose_attention("auto", kGpu, at::kHalf, 128), AttentionKernel::cudnn);
  EXPECT_EQ(choose_attention("auto", kGpu, at::kBFloat16, 256), AttentionKernel::flash);
  EXPECT_EQ(choose_attention("auto", kGpu, at::kBFloat16, 36), AttentionKernel::math);
  EXPECT_EQ(choose_attention("auto", kGpu, at::kFloat, 64), AttentionKernel::math);
  EXPECT_EQ(choose_attention("auto", at::kCPU, at::kFloat, 64), AttentionKernel::flash);
  EXPECT_EQ(choose_attention("flash", kGpu, at::kBFloat16, 64), AttentionKernel::flash);
  EXPECT_EQ(choose_attention("math", kGpu, at::kBFloat16, 64), AttentionKernel::math);
}

TEST(ChooseAttention, AutoTakesTheFastestDeterministicKernel) {
  const auto chosen = [](at::Device device, at::ScalarType dtype, std::int64_t head_dim) {
    return choose_attention("auto", device, dtype, head_dim, /*deterministic=*/true);
  };
  EXPECT_EQ(chosen(kGpu, at::kBFloat16, 64), AttentionKernel::flash);
  EXPECT_EQ(chosen(kGpu, at::kBFloat16, 256), AttentionKernel::flash);
  EXPECT_EQ(chosen(kGpu, at::kBFloat16, 264), AttentionKernel::math);
  EXPECT_EQ(chosen(kGpu, at::kBFloat16, 36), AttentionKernel::math);
  EXPECT_EQ(chosen(kGpu, at::kFloat, 64), AttentionKernel::math);
  EXPECT_EQ(chosen(at::kCPU, at::kFloat, 64), AttentionKernel::flash);
}

TEST(ChooseAttention, RefusesAKernelThatDoesNotSupportTheCall) {
  const auto expect_refusal = [](const std::string& wanted, at::Device device, at::ScalarType dtype,
                                 std::int64_t head_dim) {
    try {
      choose_attention(wanted, device, dtype, head_dim);
      FAIL() << wanted << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::usage);
      const std::string what = error.what();
      EXPECT_NE(what.find("ATTENTION=" + wanted), std::string::npos) << what;
      EXPECT_NE(what.find(std::to_string(head_dim)), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  };
  expect_refusal("cudnn", at::kCPU, at::kBFloat16, 64);
  expect_refusal("cudnn", kGpu, at::kFloat, 64);
  expect_refusal("cudnn", kGpu, at::kBFloat16, 256);
  expect_refusal("flash", kGpu, at::kFloat, 64);
  expect_refusal("flash", kGpu, at::kBFloat16, 36);
  expect_refusal("fastest", at::kCPU, at::kFloat, 64);
}

// Two rows of 9 tokens, with documents of 3, 4 and 2 and of 1 and 8 tokens.
Documents some_documents() {
  auto starts = at::zeros({2, 9}, at::kBool);
  for (const auto& [row, token] : {std::pair{0, 3}, {0, 7}, {1, 1}}) starts[row][token] = true;
  return documents_in(starts, at::kCPU);
}

TEST(Documents, AreWhereTheyStartAndTheRowsEnd) {
  const auto documents = some_documents();
  EXPECT_TRUE(at::equal(documents.offsets, at::tensor({0, 3, 7, 9, 10, 18}, at::kInt)));
  EXPECT_EQ(documents.longest, 8);
  EXPECT_TRUE(at::equal(documents.ends, at::tensor({3, 3, 3, 7, 7, 7, 7, 9, 9,  //
                                                    1, 9, 9, 9, 9, 9, 9, 9, 9},
                                                   at::kInt)
                                            .view({2, 9})));
}

// Documents of these lengths in two rows of equal size, with empty documents between and after
// them.
Documents documents_of(const std::vector<int>& lengths) {
  std::vector<int> offsets{0};
  for (int row = 0; row < 2; ++row) {
    for (const int length : lengths) offsets.push_back(offsets.back() + length);
  }
  const auto longest = *std::max_element(lengths.begin(), lengths.end());
  const auto tokens = offsets.back() / 2;
  offsets.insert(offsets.end(), 3, offsets.back());
  return documents_at(at::tensor(offsets, at::kInt), 2, tokens, longest);
}
const std::vector<int> kSomeLengths{1, 63, 0, 64, 65, 2048, 0, 7};

TEST(Documents, AtKnownOffsetsAreTheSame) {
  const auto documents = documents_of(kSomeLengths);
  const auto tokens = documents.ends.size(1);
  auto starts = at::zeros({2 * tokens}, at::kBool);
  for (const double offset : test::values_of(documents.offsets))
    if (const auto at = static_cast<std::int64_t>(offset); at < 2 * tokens) starts[at] = true;
  const auto same = documents_in(starts.view({2, tokens}), at::kCPU);
  EXPECT_TRUE(at::equal(documents.ends, same.ends));
  EXPECT_EQ(documents.longest, same.longest);
}

// Compares causal_attention() with documents and a window to attention with an explicit mask.
void expect_masked_attention(const std::optional<Documents>& documents, std::int64_t tokens,
                             std::int64_t window) {
  const auto heads = [&](std::uint64_t seed) {
    return test::normal({2, tokens, 1, 2}, seed).set_requires_grad(true);
  };
  const auto q = heads(1), k = heads(2), v = heads(3),
             upstream = test::normal({2, tokens, 1, 2}, 4);
  const auto y = causal_attention(q, k, v, {.documents = documents, .window = window});

  const auto positions = at::arange(tokens), queries = positions.unsqueeze(1);
  auto hidden = positions.gt(queries).unsqueeze(0);
  if (window > 0) hidden = hidden.logical_or(positions.le(queries - window));
  if (documents) {
    const auto document = at::searchsorted(documents->offsets, at::arange(2 * tokens).to(at::kInt),
                                           /*out_int32=*/false, /*right=*/true)
                              .view({2, tokens});
    hidden = hidden.logical_or(document.unsqueeze(1).ne(document.unsqueeze(2)));
  }
  const auto scores = at::matmul(q.transpose(1, 2), k.transpose(1, 2).mT()) / std::sqrt(2.0);
  const auto shares = scores.masked_fill(hidden.unsqueeze(1), -1e300).softmax(-1);
  const auto exact = at::matmul(shares, v.transpose(1, 2)).transpose(1, 2);
  EXPECT_TRUE(test::is_close(y, exact, 1e-12, 1e-12));
  const auto found = torch::autograd::grad({y}, {q, k, v}, {upstream}),
             right = torch::autograd::grad({exact}, {q, k, v}, {upstream});
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(test::is_close(found[i], right[i], 1e-11, 1e-12)) << "qkv"[i];
}

TEST(Documents, HideEachOthersKeysAndAWindowThoseOfTheirOwn) {
  const auto documents = documents_of(kSomeLengths);
  for (const std::int64_t window : {0, 700})
    expect_masked_attention(documents, documents.ends.size(1), window);
}

TEST_P(CausalAttention, AWindowHidesAllButTheNearestKeys) {
  for (const std::int64_t window : {1, 63, 64, 65, 130}) {
    SCOPED_TRACE(window);
    expect_masked_attention({}, 200, window);
    const auto documents = documents_of({1, 63, 0, 64, 65, 0, 150});
    expect_masked_attention(documents, 343, window);
  }
}

TEST_P(CausalAttention, AWindowOfAllTokensIsNone) {
  const auto q = test::normal({2, 18, 4, 8}, 1, at::kFloat),
             k = test::normal({2, 18, 2, 8}, 2, at::kFloat),
             v = test::normal({2, 18, 2, 8}, 3, at::kFloat);
  EXPECT_TRUE(test::is_same(causal_attention(q, k, v, {.window = 18}), causal_attention(q, k, v)));
  const auto documents = documents_of({7, 0, 11});
  EXPECT_TRUE(test::is_same(causal_attention(q, k, v, {.documents = documents, .window = 11}),
                            causal_attention(q, k, v, {.documents = documents})));
}

TEST_P(CausalAttention, TheLastQueriesSeeTheWindowThatTheySeeAmongAll) {
  const auto q = test::normal({2, 40, 4, 6}, 1), k = test::normal({2, 40, 2, 6}, 2),
             v = test::normal({2, 40, 2, 6}, 3);
  for (const std::int64_t window : {1, 5, 39, 40, 60}) {
    const auto all = causal_attention(q, k, v, {.window = window});
    for (const std::int64_t count : {1, 7, 40}) {
      const auto last = causal_attention_of_last(q.narrow(1, 40 - count, count), k, v, 0, window);
      EXPECT_TRUE(test::is_close(last, all.narrow(1, 40 - count, count), 1e-12, 1e-12))
          << window << ", " << count;
    }
  }
}

TEST(VisibleUntil, IsTheDocumentsEndOrTheWindows) {
  const auto k = at::zeros({2, 9, 1, 2});
  const auto expect = [&](const at::Tensor& found, const std::vector<int>& expected) {
    EXPECT_TRUE(at::equal(found, at::tensor(expected, at::kInt).view({2, 9}))) << found;
  };
  expect(visible_until(k, some_documents(), 3), {3, 3, 3, 6, 7, 7, 7, 9, 9,  //
                                                 1, 4, 5, 6, 7, 8, 9, 9, 9});
  expect(visible_until(k, {}, 3), {3, 4, 5, 6, 7, 8, 9, 9, 9,  //
                                   3, 4, 5, 6, 7, 8, 9, 9, 9});
  expect(visible_until(k, some_documents(), 0), {3, 3, 3, 7, 7, 7, 7, 9, 9,  //
                                                 1, 9, 9, 9, 9, 9, 9, 9, 9});
  EXPECT_FALSE(visible_until(k, {}, 0).defined());
}

TEST(VisibleUntil, IsComputedOnceForAllLayersOfAPass) {
  const auto k = at::zeros({2, 9, 1, 2});
  const auto documents = some_documents(), copy = documents;
  const auto first = visible_until(k, documents, 3);
  EXPECT_TRUE(visible_until(k, copy, 3).is_same(first));
  EXPECT_FALSE(visible_until(k, copy, 2).is_same(first));
  EXPECT_FALSE(visible_until(k, some_documents(), 3).is_same(first));
}

TEST(Documents, AttendEachToItselfAlone) {
  const auto leaf = [](at::IntArrayRef shape, std::uint64_t seed) {
    return test::normal(shape, seed).set_requires_grad(true);
  };
  const auto q = leaf({2, 9, 4, 8}, 1), k = leaf({2, 9, 2, 8}, 2), v = leaf({2, 9, 2, 8}, 3);
  const auto upstream = test::normal({2, 9, 4, 8}, 4);
  const auto y = causal_attention(q, k, v, {.documents = some_documents()});
  const auto gradients = torch::autograd::grad({y}, {q, k, v}, {upstream});
  for (const auto& [row, first, count] :
       {std::array{0, 0, 3}, {0, 3, 4}, {0, 7, 2}, {1, 0, 1}, {1, 1, 8}}) {
    const auto of_document = [&, row = row, first = first, count = count](const at::Tensor& x) {
      return x.narrow(0, row, 1).narrow(1, first, count);
    };
    const std::vector<at::Tensor> alone{of_document(q), of_document(k), of_document(v)};
    const auto y_alone = causal_attention(alone[0], alone[1], alone[2]);
    EXPECT_TRUE(test::is_close(of_document(y), y_alone, 1e-12, 1e-12));
    const auto expected = torch::autograd::grad({y_alone}, alone, {of_document(upstream)});
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(test::is_close(of_document(gradients[i]), expected[i], 1e-12, 1e-12)) << "qkv"[i];
  }
}

}  // namespace
}  // namespace tg
