// Tests qkv_proj_norm_rope()'s kernels where an input or an upstream gradient is unusual.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class QkvProjNormRopeEdgesGpu : public test::OnGpu<> {};

TEST_F(QkvProjNormRopeEdgesGpu, OnlyWhatTheLossUsesHasAGradient) {
  constexpr std::int64_t kTokens = 70, kDim = 128, kHeads = 4, kKvHeads = 2, kHeadDim = 64;
  const auto x = test::normal({1, kDim, kTokens}, 1, at::kBFloat16)
                     .to(test::kGpu)
                     .transpose(1, 2)  // not contiguous
                     .requires_grad_();
  const auto value =
      test::normal({(kHeads + 2 * kKvHeads) * kHeadDim, kDim}, 2, at::kBFloat16).to(test::kGpu);
  const Weight weight{value, at::zeros_like(value, at::kFloat)};
  const auto table = make_rope_table(kTokens, {.dims = 16}, at::kBFloat16, test::kGpu);
  for (int micro_step = 1; micro_step <= 2; ++micro_step) {
    const auto out = qkv_proj_norm_rope(x, weight, {.heads = kHeads, .kv_heads = kKvHeads}, table);
    out.k.backward(at::ones_like(out.k));
    const auto parts =
        weight.gradient.view({-1, kHeadDim, kDim}).split_with_sizes({kHeads, kKvHeads, kKvHeads});
    const auto &of_q = parts[0], &of_k = parts[1], &of_v = parts[2];
    EXPECT_EQ(of_q.count_nonzero().item<std::int64_t>(), 0);
    EXPECT_GT(of_k.count_nonzero().item<std::int64_t>(), 0);
    EXPECT_EQ(of_v.count_nonzero().item<std::int64_t>(), 0);
  }
  EXPECT_TRUE(x.grad().defined());
}

// A run that has diverged must show NaNs.
TEST_F(QkvProjNormRopeEdgesGpu, AGainOfNanGivesNans) {
  const auto x = test::normal({1, 5, 64}, 1, at::kBFloat16).to(test::kGpu);
  const auto value = test::normal({4 * 64, 64}, 2, at::kBFloat16).to(test::kGpu);
  const auto gain = at::full({2}, std::nan(""), at::TensorOptions(test::kGpu).dtype(at::kFloat));
  const auto table = make_rope_table(5, {.dims = 16}, at::kBFloat16, test::kGpu);
  const at::NoGradGuard no_grad;
  const auto out =
      qkv_proj_norm_rope(x, {value, {}}, {.heads = 2, .kv_heads = 1, .q_gain = gain}, table);
  EXPECT_TRUE(out.q.isnan().all().item<bool>());
  EXPECT_FALSE(out.k.isnan().any().item<bool>());
}

}  // namespace
}  // namespace tg
