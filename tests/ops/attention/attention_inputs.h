#pragma once
// Inputs of attention and what the formula in fp64 makes of them, for tests of its kernels.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/gates/xsa.h"
#include "tests/ops/attention/passed_gradients.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg::test {

struct AttentionCase {
  const char* name;
  std::int64_t batch, tokens, heads, kv_heads, head_dim;
  at::ScalarType dtype;
  bool exclusive = false;
  std::int64_t document = 0;  // mean document length in tokens; 0: each row is one document
  std::int64_t window = 0;    // 0: no window
  bool gated = false;         // gates the heads
};

// Rows, documents and windows that begin and end in any place of a block of 128 tokens, and more
// blocks, or in the last cases pairs of blocks, than the emulation has multiprocessors.
inline std::vector<AttentionCase> small_attention_cases() {
  return {{"groups_of_two", 2, 256, 4, 2, 64, at::kBFloat16},
          {"ragged", 1, 301, 2, 1, 64, at::kHalf},
          {"two_tokens", 2, 2, 1, 1, 64, at::kBFloat16},
          {"wide_heads", 1, 256, 2, 1, 128, at::kBFloat16},
          {"ragged_wide_heads", 2, 170, 1, 1, 128, at::kHalf},
          {"documents", 2, 320, 2, 1, 64, at::kBFloat16, false, 70},
          {"short_documents", 1, 301, 2, 2, 64, at::kHalf, false, 6},
          {"wide_heads_of_documents", 2, 300, 2, 1, 128, at::kBFloat16, false, 100},
          {"window", 2, 320, 2, 1, 64, at::kBFloat16, false, 0, 100},
          {"window_of_a_block", 1, 301, 2, 2, 64, at::kHalf, false, 0, 128},
          {"window_of_two_tokens", 1, 200, 2, 1, 64, at::kHalf, false, 0, 2},
          {"window_in_documents", 2, 320, 2, 1, 64, at::kBFloat16, false, 150, 65},
          {"wide_heads_with_a_window", 2, 400, 2, 1, 128, at::kBFloat16, false, 0, 129},
          {"long", 1, 800, 2, 1, 64, at::kBFloat16},
          {"long_wide_heads", 1, 800, 2, 1, 128, at::kBFloat16},
          {"long_row_of_documents", 1, 1000, 2, 1, 64, at::kBFloat16, false, 90, 200}};
}

using Gradients = std::vector<at::Tensor>;

struct AttentionInputs {
  at::Tensor qkv, d_out;  // heads of q, k and v in one tensor, as their projection returns them
  std::int64_t heads, kv_heads;
  bool exclusive;
  at::Tensor starts;  // of documents; undefined: each row is one document
  std::int64_t window;
  at::Tensor gate_x, gate_weight;  // undefined: no gate

  explicit AttentionInputs(const AttentionCase& c)
      : qkv(normal({c.batch, c.tokens, c.heads + 2 * c.kv_heads, c.head_dim}, 1, c.dtype)),
        d_out(normal({c.batch, c.tokens, c.heads, c.head_dim}, 2, c.dtype)),
        heads(c.heads),
        kv_heads(c.kv_heads),
        exclusive(c.exclusive),
        window(c.window) {
    if (c.gated) {
      gate_x = normal({c.batch, c.tokens, 16}, 4, c.dtype);
      gate_weight = normal({c.heads, 12}, 5, at::kFloat);
    }
    if (c.document == 0) return;
    const auto draws = normal({c.batch, c.tokens}, 3, at::kDouble).abs();
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
    const auto leaves = parts(qkv.to(kGpu));
    const auto out = causal_attention(leaves[0], leaves[1], leaves[2],
                                      {.exclusive_v = exclusive ? leaves[2] : at::Tensor(),
                                       .gate = gate(kGpu, qkv.scalar_type()),
                                       .documents = documents(kGpu),
                                       .window = window});
    return torch::autograd::grad({out}, leaves, {d_out.to(kGpu)});
  }

  HeadGateInputs gate(at::Device device, at::ScalarType dtype) const {
    if (!gate_weight.defined()) return {};
    return {.x = gate_x.to(device, dtype),
            .weight = gate_weight.to(device, dtype == at::kDouble ? dtype : at::kFloat),
            .range = 2,
            .passed = taken_gate_x()};
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

inline double relative_error(const at::Tensor& found, const at::Tensor& exact) {
  const auto difference = found.cpu().to(at::kDouble) - exact;
  return (difference.norm() / exact.norm()).item<double>();
}

}  // namespace tg::test
