#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "ops/attention/documents.h"
#include "ops/attention/gates/head_gate.h"
#include "ops/attention/projection/qk_norm_rope.h"
#include "ops/passed_gradients.h"

namespace tg {

enum class AttentionKernel { cudnn, flash, math };

// Chooses the kernel for heads of `head_dim` in `dtype` on `device`: the requested one ("cudnn",
// "flash" or "math"), or with "auto" the fastest supported one: cuDNN, else flash, else math. With
// `deterministic`, "auto" excludes cuDNN, whose backward pass is nondeterministic. Throws a usage
// error if the requested kernel is not supported.
AttentionKernel choose_attention(const std::string& requested, at::Device device,
                                 at::ScalarType dtype, std::int64_t head_dim,
                                 bool deterministic = false);
std::string attention_name(AttentionKernel kernel);
// Makes scaled_dot_product_attention use only this kernel, process-wide.
void use_attention(AttentionKernel kernel);

struct AttentionOptions {
  std::int64_t channels = 0;  // of a head, without padding: hd in the formula; 0: all
  at::Tensor exclusive_v =
      {};                    // alias of v; if defined, applies exclusive_attention(y, exclusive_v)
  HeadGateInputs gate = {};  // applied last
  Fp8Scaling rounding = {};  // see exclusive_attention()
  // Restricts each query to the keys of its document, and to the last `window` keys including its
  // own; 0: no window. Computed by fused_attention()'s kernels; on other GPUs in half precision by
  // FlashAttention, forward and backward; on the CPU per document; otherwise with a mask.
  std::optional<Documents> documents = {};
  std::int64_t window = 0;
  PassedGradientsPtr passed = {};
  bool reader_passes_delta = false;  // the operation that reads the result can pass delta
};

// Computes causal softmax(q·kᵀ/√hd)·v (Vaswani et al. 2017); query head h reads KV head
// ⌊h·KV/heads⌋ (grouped-query attention, Ainslie et al. 2023). q [B, T, heads, hd], k and v [B, T,
// KV, hd] → [B, T, heads, hd].
at::Tensor causal_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                            const at::Tensor& v_bthd, const AttentionOptions& options = {});

// Computes causal_attention() only for the queries of the last S ≤ T positions, without a gradient:
// q [B, S, heads, hd], k and v [B, T, KV, hd] → [B, S, heads, hd]; channels and window as in
// AttentionOptions. Uses FlashAttention on a GPU in half precision, regardless of ATTENTION, else
// math.
at::Tensor causal_attention_of_last(const at::Tensor& q_bshd, const at::Tensor& k_bthd,
                                    const at::Tensor& v_bthd, std::int64_t channels = 0,
                                    std::int64_t window = 0);

}  // namespace tg
