#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "ops/attention/documents.h"
#include "ops/attention/head_gate.h"
#include "ops/attention/query_gradient.h"
#include "ops/norm/attention_delta.h"

namespace tg {

enum class AttentionKernel { cudnn, flash, math };

// Which kernel serves heads of `head_dim` in `dtype` on `device`: the one asked for ("cudnn",
// "flash" or "math"), or with "auto" the fastest that can: cuDNN, else flash, else math. With
// `deterministic` "auto" leaves out cuDNN, whose backward pass gives other bits each time. Errors:
// usage, when the one asked for cannot.
AttentionKernel choose_attention(const std::string& wanted, at::Device device, at::ScalarType dtype,
                                 std::int64_t head_dim, bool deterministic = false);
std::string attention_name(AttentionKernel kernel);
// Makes scaled_dot_product_attention use that kernel and no other, for the whole process.
void use_attention(AttentionKernel kernel);

struct AttentionOptions {
  std::int64_t channels = 0;  // of a head, where the others are padding: hd in the formula; 0: all
  at::Tensor exclusive_v = {};  // v again: the result is exclusive_attention(result, exclusive_v)
  HeadGateInputs gate = {};     // of that
  // A query sees the keys of its own document alone, and of the keys before it only the nearest:
  // of `window` with its own one; 0: all. By the kernels named at fused_attention(), on another GPU
  // in half precision FlashAttention's both ways, else with a mask, on the CPU document by
  // document.
  std::optional<Documents> documents = {};
  std::int64_t window = 0;
  QueryGradientPtr q_gradient = {};    // q's gradient may go there (qk_norm_rope.h)
  AttentionDeltaPtr delta_parts = {};  // of the projection that takes the result as it is; no gate
};

// Causal softmax(q·kᵀ/√hd)·v (Vaswani et al. 2017); query head h reads KV head ⌊h·KV/heads⌋
// (grouped queries, Ainslie et al. 2023). q [B, T, heads, hd], k and v [B, T, KV, hd] → [B, T,
// heads, hd].
at::Tensor causal_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                            const at::Tensor& v_bthd, const AttentionOptions& options = {});

// Attention for the last S ≤ T positions' queries, without a gradient: q [B, S, heads, hd], k and v
// [B, T, KV, hd] → [B, S, heads, hd]; channels and window as in AttentionOptions. FlashAttention on
// a GPU in half precision, whatever ATTENTION says, else math.
at::Tensor causal_attention_of_last(const at::Tensor& q_bshd, const at::Tensor& k_bthd,
                                    const at::Tensor& v_bthd, std::int64_t channels = 0,
                                    std::int64_t window = 0);

}  // namespace tg
