// Tests the backward pass of ops/attention/fused_attention.h, and its kernel alone, against the
// formula in fp64 on the CPU, and compares its error with cuDNN's.
#include <torch/csrc/autograd/autograd.h>

#include <optional>

#include "ops/attention/attention.h"
#include "ops/attention/attention_workspace.h"
#include "ops/attention/fused_attention.h"
#include "ops/attention/gates/xsa.h"
#include "ops/attention/gates/xsa_on_tensors.h"
#include "tests/ops/attention/passed_gradients.h"
#include "tests/ops/on_hopper.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct AttentionCase {
  const char* name;
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  at::ScalarType dtype;
  bool exclusive = false;
  std::int64_t document = 0;  // mean document length in tokens; 0: each row is one document
  std::int64_t window = 0;    // 0: no window
  bool gated = false;         // gates the heads
};

using Gradients = std::vector<at::Tensor>;

struct Inputs {
  at::Tensor qkv, d_out;  // heads of q, k and v in one tensor, as their projection returns them
  std::int64_t heads, kv_heads;
  bool exclusive;
  at::Tensor starts;  // of documents; undefined: each row is one document
  std::int64_t window;
  at::Tensor gate_x, gate_weight;  // undefined: no gate

  explicit Inputs(const AttentionCase& c)
      : qkv(test::normal({c.batch, c.tokens, c.heads + 2 * c.kv_heads, c.head_dim}, 1, c.dtype)),
        d_out(test::normal({c.batch, c.tokens, c.heads, c.head_dim}, 2, c.dtype)),
        heads(c.heads),
        kv_heads(c.kv_heads),
        exclusive(c.exclusive),
        window(c.window) {
    if (c.gated) {
      gate_x = test::normal({c.batch, c.tokens, 16}, 4, c.dtype);
      gate_weight = test::normal({c.heads, 12}, 5, at::kFloat);
    }
    if (c.document == 0) return;
    const auto draws = test::normal({c.batch, c.tokens}, 3, at::kDouble).abs();
    starts = draws.lt(draws.flatten().quantile(1.0 / c.document));
  }

  // Gradients of q, k and v, by the formula in fp64 on the CPU.
  Gradients exact() const {
    const auto leaves = parts(qkv.to(at::kDouble));
    auto out = by_formula(leaves).out;
    out =
        exclusive_attention(out, exclusive ? leaves[2] : at::Tensor(), gate(at::kCPU, at::kDouble));
    return torch::autograd::grad({out}, leaves, {d_out.to(at::kDouble)});
  }
  // Gradients by causal_attention() on the GPU.
  Gradients on_gpu() const {
    const auto leaves = parts(qkv.to(test::kGpu));
    const auto out = causal_attention(leaves[0], leaves[1], leaves[2],
                                      {.exclusive_v = exclusive ? leaves[2] : at::Tensor(),
                                       .gate = gate(test::kGpu, qkv.scalar_type()),
                                       .documents = documents(test::kGpu),
                                       .window = window});
    return torch::autograd::grad({out}, leaves, {d_out.to(test::kGpu)});
  }

  HeadGateInputs gate(at::Device device, at::ScalarType dtype) const {
    if (!gate_weight.defined()) return {};
    return {.x = gate_x.to(device, dtype),
            .weight = gate_weight.to(device, dtype == at::kDouble ? dtype : at::kFloat),
            .range = 2,
            .passed = test::taken_gate_x()};
  }
  std::optional<Documents> documents(at::Device device) const {
    return starts.defined() ? std::optional(documents_in(starts, device)) : std::nullopt;
  }

  struct Forward {
    at::Tensor out, logsumexp;  // [B, T, heads, hd], [B, heads, T]
  };
  Forward by_formula(const Gradients& qkv_heads) const {
    const auto by_head = [&](const at::Tensor& x) {
      return x.transpose(1, 2).repeat_interleave(heads / x.size(2), 1);
    };
    const auto q = by_head(qkv_heads[0]), k = by_head(qkv_heads[1]), v = by_head(qkv_heads[2]);
    const auto until = visible_until(qkv_heads[1], documents(at::kCPU), window);
    const auto hidden =
        until.defined() ? hidden_keys(until) : at::ones({q.size(2), q.size(2)}, at::kBool).triu(1);
    const auto scores =
        (at::matmul(q, k.transpose(2, 3)) / std::sqrt(q.size(3))).masked_fill(hidden, -INFINITY);
    return {at::matmul(at::softmax(scores, -1), v).transpose(1, 2), at::logsumexp(scores, -1)};
  }
  // Splits the heads into q, k and v, as leaves.
  Gradients parts(const at::Tensor& all) const {
    Gradients leaves;
    for (const auto& [first, count] :
         {std::pair{std::int64_t{0}, heads}, {heads, kv_heads}, {heads + kv_heads, kv_heads}})
      leaves.push_back(all.detach().narrow(2, first, count).detach().set_requires_grad(true));
    return leaves;
  }
};

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

double relative_error(const at::Tensor& found, const at::Tensor& exact) {
  const auto difference = found.cpu().to(at::kDouble) - exact;
  return (difference.norm() / exact.norm()).item<double>();
}

// cuDNN's backward pass (FlashAttention's for documents and windows) rounds in the same places: q,
// k, v, d_out, the probabilities and their gradients are in half precision, all accumulations in
// fp32.
TEST_P(AttentionGpu, GradientsAreAsNearTheFormulaAsThoseOfCudnn) {
  const Inputs inputs(GetParam());
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
  const Inputs inputs(c);
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

// More key blocks than the emulation's grid has CTAs; an odd number of key blocks; partial blocks.
// In the last cases a head has more pairs of key blocks than the emulation has multiprocessors.
INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionBackwardGpu,
    ::testing::Values(
        AttentionCase{"groups_of_two", 2, 256, 4, 2, 64, at::kBFloat16},
        AttentionCase{"ragged", 1, 301, 2, 1, 64, at::kHalf},
        AttentionCase{"two_tokens", 2, 2, 1, 1, 64, at::kBFloat16},
        AttentionCase{"wide_heads", 1, 256, 2, 1, 128, at::kBFloat16},
        AttentionCase{"ragged_wide_heads", 2, 170, 1, 1, 128, at::kHalf},
        AttentionCase{"exclusive", 2, 170, 4, 2, 64, at::kBFloat16, true},
        AttentionCase{"gated", 2, 170, 4, 2, 64, at::kBFloat16, true, 0, 0, true},
        AttentionCase{"wide_gated_heads", 1, 170, 2, 2, 128, at::kHalf, true, 0, 0, true},
        AttentionCase{"documents", 2, 320, 2, 1, 64, at::kBFloat16, false, 70},
        AttentionCase{"short_documents", 1, 301, 2, 2, 64, at::kHalf, false, 6},
        AttentionCase{"wide_heads_of_documents", 2, 300, 2, 1, 128, at::kBFloat16, false, 100},
        AttentionCase{"window", 2, 320, 2, 1, 64, at::kBFloat16, false, 0, 100},
        AttentionCase{"window_of_a_block", 1, 301, 2, 2, 64, at::kHalf, false, 0, 128},
        AttentionCase{"window_of_two_tokens", 1, 200, 2, 1, 64, at::kHalf, false, 0, 2},
        AttentionCase{"window_in_documents", 2, 320, 2, 1, 64, at::kBFloat16, true, 150, 65},
        AttentionCase{"wide_heads_with_a_window", 2, 300, 2, 1, 128, at::kBFloat16, false, 0, 129},
        AttentionCase{"long", 1, 800, 2, 1, 64, at::kBFloat16},
        AttentionCase{"two_long_rows", 2, 780, 2, 1, 64, at::kHalf, true},
        AttentionCase{"long_wide_heads", 1, 800, 2, 1, 128, at::kBFloat16},
        AttentionCase{"long_row_of_documents", 1, 1000, 2, 1, 64, at::kBFloat16, false, 90, 200}),
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
  const Inputs inputs(GetParam());
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
