// Tests the backward pass of ops/attention/fused_attention.h, and its kernel alone, against the
// formula in fp64 on the CPU, and compares its error with cuDNN's.
#include <torch/csrc/autograd/autograd.h>

#include <optional>

#include "ops/attention/attention.h"
#include "ops/attention/attention_workspace.h"
#include "ops/attention/fused_attention.h"
#include "ops/attention/gates/xsa.h"
#include "ops/attention/gates/xsa_on_tensors.h"
#include "tests/ops/attention/attention_inputs.h"
#include "tests/ops/on_hopper.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

using test::AttentionCase;
using test::AttentionInputs;
using test::Gradients;
using test::relative_error;

class AttentionGpu : public test::OnGpu<::testing::TestWithParam<AttentionCase>> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    use_attention(AttentionKernel::cudnn);
    const auto probe = at::ones({1, 128, 1, GetParam().head_dim},
                                at::TensorOptions(test::kGpu).dtype(GetParam().dtype))
                           .set_requires_grad(true);
    if (!fused_attention_supports(probe, probe, probe)) GTEST_SKIP() << "no Hopper GPU";
  }
};

// cuDNN's backward pass (FlashAttention's for documents and windows) rounds in the same places: q,
// k, v, d_out, the probabilities and their gradients are in half precision, all accumulations in
// fp32.
TEST_P(AttentionGpu, GradientsAreAsNearTheFormulaAsThoseOfCudnn) {
  const AttentionInputs inputs(GetParam());
  const auto dtype = GetParam().dtype;
  const auto exact = inputs.exact(), found = inputs.on_gpu();
  set_fused(false);
  const auto cudnn = inputs.on_gpu();
  set_fused(true);
  for (std::size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE("qkv"[i]);
    EXPECT_EQ(found[i].scalar_type(), dtype);
    EXPECT_EQ(found[i].sizes(), exact[i].sizes());
    const double error = relative_error(found[i], exact[i]);
    EXPECT_LT(error, 1.2 * relative_error(cudnn[i], exact[i]));
    EXPECT_LT(error, dtype == at::kHalf ? 2e-3 : 1e-2);
  }
}

// [heads·hd / 64, B·T]
at::Tensor dots_of(const at::Tensor& out, const at::Tensor& d_out) {
  const auto products = out.to(at::kFloat) * d_out.to(at::kFloat);
  return products.view({out.size(0) * out.size(1), -1, 64}).sum(-1).t().contiguous();
}

// Tests the kernel alone, with the output and the log-sum-exp of the formula.
class AttentionBackwardGpu : public test::OnHopper<::testing::TestWithParam<AttentionCase>> {
 protected:
  // `dots_given`: rowsum(out∘d_out) is an input, as the projection's backward pass computes it.
  void expect_gradients_of_formula(bool dots_given) const;
};

void AttentionBackwardGpu::expect_gradients_of_formula(bool dots_given) const {
  const auto& c = GetParam();
  const AttentionInputs inputs(c);
  const auto exact = inputs.exact();
  const auto forward = inputs.by_formula(inputs.parts(inputs.qkv.to(at::kDouble)));
  const auto out = forward.out.detach().to(test::kGpu, c.dtype).contiguous(),
             logsumexp = forward.logsumexp.detach().to(test::kGpu, at::kFloat).contiguous(),
             qkv = inputs.qkv.to(test::kGpu), d_out = inputs.d_out.to(test::kGpu);
  const auto leaves = inputs.parts(qkv);
  const auto &q = leaves[0], &k = leaves[1], &v = leaves[2];
  const auto shape = attention_shape(q, k, 1 / std::sqrt(static_cast<double>(c.head_dim)));
  // The kernel must not depend on the workspace's initial contents.
  const AttentionWorkspace workspace(shape, qkv.device());
  workspace.q_sum.fill_(NAN);
  workspace.q_begun.fill_(9);
  workspace.next_unit.fill_(9);
  auto dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options()),
       dv = at::empty(v.sizes(), v.options());
  const auto until = visible_until(k, inputs.documents(test::kGpu), c.window);
  auto dy = d_out;
  at::Tensor exclusive_dv;
  if (c.exclusive) {
    const auto d = exclusive_backward(out, v, inputs.gate(test::kGpu, c.dtype), d_out,
                                      workspace.row_delta(shape));
    dy = d.dy, exclusive_dv = d.dv;
  }
  const auto dots = dots_given ? dots_of(out, dy) : at::Tensor();
  const bool has_dots = dots_given || c.exclusive;
  cuda::attention_backward(
      shape,
      {.q = head_vectors(q),
       .k = head_vectors(k),
       .v = head_vectors(v),
       .out = has_dots ? cuda::HeadVectors{} : head_vectors(out),
       .d_out = head_vectors(dy),
       .delta_parts = const_fp32_data(dots),
       .parts = static_cast<int>(c.head_dim / 64),
       .logsumexp = const_fp32_data(logsumexp),
       .visible_until = until.defined() ? until.const_data_ptr<int>() : nullptr},
      workspace.gradients(dq, dk, dv), dtype_of(qkv), current_stream(qkv));
  const double bound = c.dtype == at::kHalf ? 2e-3 : 1e-2;
  EXPECT_LT(relative_error(dq, exact[0]), bound);
  EXPECT_LT(relative_error(dk, exact[1]), bound);
  EXPECT_LT(relative_error(c.exclusive ? dv + exclusive_dv : dv, exact[2]), bound);
}

TEST_P(AttentionBackwardGpu, GradientsAreTheFormulas) {
  expect_gradients_of_formula(/*dots_given=*/false);
}

TEST_P(AttentionBackwardGpu, GradientsAreTheFormulasWhereTheProjectionLeftTheDots) {
  expect_gradients_of_formula(/*dots_given=*/true);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionBackwardGpu,
                         ::testing::ValuesIn(test::small_attention_cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });
INSTANTIATE_TEST_SUITE_P(
    Gates, AttentionBackwardGpu,
    ::testing::Values(
        AttentionCase{"exclusive", 2, 170, 4, 2, 64, at::kBFloat16, true},
        AttentionCase{"gated", 2, 170, 4, 2, 64, at::kBFloat16, true, 0, 0, true},
        AttentionCase{"wide_gated_heads", 1, 170, 2, 2, 128, at::kHalf, true, 0, 0, true},
        AttentionCase{"window_in_documents", 2, 320, 2, 1, 64, at::kBFloat16, true, 150, 65},
        AttentionCase{"two_long_rows", 2, 780, 2, 1, 64, at::kHalf, true}),
    [](const auto& tested) { return std::string(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionGpu,
    ::testing::Values(
        AttentionCase{"one_block", 1, 128, 1, 1, 64, at::kBFloat16},
        AttentionCase{"two_blocks_of_the_record", 2, 256, 8, 4, 64, at::kBFloat16},
        AttentionCase{"record", 1, 2048, 8, 4, 64, at::kBFloat16},
        AttentionCase{"exclusive", 1, 2048, 8, 4, 64, at::kBFloat16, true},
        AttentionCase{"ragged_exclusive", 3, 201, 4, 2, 64, at::kHalf, true},
        AttentionCase{"gated", 3, 2001, 8, 4, 64, at::kBFloat16, true, 0, 0, true},
        AttentionCase{"gated_documents", 2, 2048, 8, 4, 64, at::kBFloat16, true, 300, 700, true},
        AttentionCase{"gated_alone", 3, 201, 6, 6, 128, at::kBFloat16, false, 0, 0, true},
        AttentionCase{"gated_in_windows", 2, 1024, 8, 4, 64, at::kHalf, false, 300, 129, true},
        AttentionCase{"record_in_fp16", 1, 1024, 8, 4, 64, at::kHalf},
        AttentionCase{"ungrouped", 2, 384, 3, 3, 64, at::kBFloat16},
        AttentionCase{"groups_of_three", 3, 640, 6, 2, 64, at::kHalf},
        AttentionCase{"speedrun", 1, 1024, 6, 6, 128, at::kBFloat16},
        AttentionCase{"speedrun_in_fp16", 2, 384, 6, 6, 128, at::kHalf},
        AttentionCase{"ragged_wide_heads", 3, 201, 4, 2, 128, at::kBFloat16},
        AttentionCase{"wide_heads", 40, 300, 4, 4, 128, at::kBFloat16},
        AttentionCase{"ragged", 3, 201, 4, 2, 64, at::kBFloat16},
        AttentionCase{"two_tokens", 2, 2, 4, 2, 64, at::kBFloat16},
        AttentionCase{"more_work_than_processors", 48, 300, 8, 4, 64, at::kBFloat16},
        AttentionCase{"documents", 2, 2048, 8, 4, 64, at::kBFloat16, true, 300},
        AttentionCase{"short_documents", 3, 201, 4, 2, 64, at::kHalf, false, 6},
        AttentionCase{"wide_heads_of_documents", 2, 1024, 6, 6, 128, at::kBFloat16, false, 300},
        AttentionCase{"window", 2, 2048, 8, 4, 64, at::kBFloat16, true, 0, 1024},
        AttentionCase{"short_window", 3, 201, 4, 2, 64, at::kHalf, false, 0, 7},
        AttentionCase{"window_in_documents", 2, 2048, 8, 4, 64, at::kBFloat16, false, 700, 384},
        AttentionCase{"wide_heads_with_a_window", 2, 1024, 6, 6, 128, at::kBFloat16, false, 0,
                      128}),
    [](const auto& tested) { return std::string(tested.param.name); });

class LastQueriesGpu : public test::OnGpu<> {};

TEST_F(LastQueriesGpu, SeeTheirWindowAlone) {
  const auto heads = [](std::int64_t count, std::uint64_t seed) {
    return test::normal({2, 300, count, 64}, seed, at::kBFloat16);
  };
  const auto q = heads(4, 1), k = heads(2, 2), v = heads(2, 3);
  for (const std::int64_t window : {0, 1, 50, 299, 400}) {
    for (const std::int64_t count : {1, 7, 300}) {
      const auto of_last = [&](at::Device device, at::ScalarType dtype) {
        return causal_attention_of_last(q.narrow(1, 300 - count, count).to(device, dtype),
                                        k.to(device, dtype), v.to(device, dtype), 0, window);
      };
      // The probabilities and the result are rounded.
      EXPECT_LT(relative_error(of_last(test::kGpu, at::kBFloat16), of_last(at::kCPU, at::kDouble)),
                5e-3)
          << window << ", " << count;
    }
  }
}

// The largest relative error of any block of keys or queries: in a long row, a wrong block hardly
// changes the error of the whole tensor.
double worst_relative_error_of_a_block(const at::Tensor& found, const at::Tensor& right) {
  const auto by_block = [](const at::Tensor& x) {
    const auto squares = x.to(at::kFloat).square().sum(at::IntArrayRef{2, 3});
    const auto rest =
        (cuda::kAttentionBlock - x.size(1) % cuda::kAttentionBlock) % cuda::kAttentionBlock;
    return at::constant_pad_nd(squares, {0, rest}).view({-1, cuda::kAttentionBlock}).sum(1).sqrt();
  };
  const auto difference = found.to(at::kFloat) - right.to(at::kFloat);
  return (by_block(difference) / by_block(right)).max().item<double>();
}

// Rows with more pairs of key blocks than any GPU has multiprocessors.
class LongRowGpu : public AttentionGpu {};

TEST_P(LongRowGpu, GradientsAreThoseOfLibTorchsKernels) {
  const AttentionInputs inputs(GetParam());
  const auto leaves = inputs.parts(inputs.qkv.to(test::kGpu));
  ASSERT_TRUE(fused_attention_supports(leaves[0], leaves[1], leaves[2]));
  const auto found = inputs.on_gpu();
  set_fused(false);
  const auto right = inputs.on_gpu();
  set_fused(true);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_LT(worst_relative_error_of_a_block(found[i], right[i]), 0.03) << "qkv"[i];
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LongRowGpu,
    ::testing::Values(AttentionCase{"documents", 1, 65601, 4, 2, 64, at::kBFloat16, true, 700},
                      AttentionCase{"window", 2, 65536, 2, 1, 64, at::kBFloat16, false, 0, 1024},
                      AttentionCase{"wide_heads_of_documents", 1, 98304, 2, 2, 128, at::kBFloat16,
                                    false, 500, 300},
                      AttentionCase{"whole", 1, 40000, 2, 1, 64, at::kBFloat16}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
