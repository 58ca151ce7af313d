#pragma once
#include <functional>

#include "ops/fused.h"
#include "ops/gemm/linear.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/loss/softcap_cross_entropy_kernel.h"

namespace tg {

// Minimum number of columns for the fused head (see linear_cross_entropy): the passes over [N, D]
// that it adds cost as much as the pass over [N, V] that it saves at V of about 12·D. On an H100
// with 8,192 columns it takes 6 % less time with D = 512, 2 % more with 768.
inline constexpr std::int64_t kMinFusedColumns = 8192;

// Computes softcap_cross_entropy(x·Wᵀ, targets): x [N, D], not in the form `quantized`, weight [at
// least vocab, D] → [] fp32. The weight's gradient is as in linear(). Without gradients and
// weighted targets the mean of linear_nll(). backward() must start from the result or from a sum of
// which it is a term: factors of the gradient belong in `scale` or `grad_scale`, since the fused
// head takes its upstream gradient for 1.
//
// Fused head, by kernels in bf16 with at least kMinFusedColumns columns, a cap up to
// cuda::kMaxSoftcap and `weight.gradient`: only one chunk of tokens has its logits or their
// gradient [N, V] materialized at a time. The forward pass also computes the gradients, chunk by
// chunk: it accumulates dW in `weight.gradient` and keeps dx for backward. Forward without backward
// therefore costs three GEMMs rather than one, and leaves the weight's gradient.
// Softcapped logits s are bounded, so that the softmax needs no row maximum: the first GEMM's
// epilogue on Hopper, elsewhere a kernel that overwrites the chunk's logits, stores the
// unnormalised gradient G = e^(s−cap)·ds/dz and the row sums S of e^(s−cap).
// With dz = c·(m·G/S − Σ_k f_k·onehot_k), where G is 0 at the first target, m is the mass, c =
// scale/N, f_0 = (w_0 − m·p_0)·ds/dz and f_k = w_k·ds/dz of further targets:
//   dx = c·(m·(G·W)/S − Σ_k f_k·W[target_k])
//   dW = Gᵀ·(c·m·x/S) − c·f_k·x added to each row `target_k`
// The targets' terms are in fp32 up to the final rounding, since p_0 may be close to 1. With
// weight.fp8 all three GEMMs have FP8 operands, but the target's logit and W[target] use the 16-bit
// operands: the reported loss may then be too low by quantization error that the head adapts to,
// but with quantized ones training ended at a higher loss (docs/benchmarks.md). G is in e5m2, since
// its elements span the range of e^s. c·x/S has one scale for all tokens: a token whose S exceeds
// the step's smallest by e^7 loses bits in dW, by e^10 everything but its target's term.
at::Tensor linear_cross_entropy(const NormedInput& x_nd, const Weight& weight,
                                const LossTargets& targets, const CrossEntropyOptions& options);

// Calls use(first, z) for consecutive chunks of rows with their logits z = x·Wᵀ, from row `first`
// on, without gradients: logits of one chunk, at most chunk_bytes, are in memory at a time.
void for_each_logits(const NormedInput& x_nd, const Weight& weight,
                     const std::function<void(std::int64_t first, const at::Tensor& z_nv)>& use,
                     std::int64_t chunk_bytes = kFusedHeadBytes);
// Returns softcap_nll(x·Wᵀ, targets) [N] fp32 (fp64 for fp64) by for_each_logits().
at::Tensor linear_nll(const NormedInput& x_nd, const Weight& weight, const at::Tensor& targets_n,
                      const CrossEntropyOptions& options);

// Returns the rows per chunk for `rows` tokens: the fewest equal chunks that fit chunk_bytes, in
// whole cluster tiles of the GEMM; the last chunk may be smaller.
std::int64_t fused_head_rows(std::int64_t rows, std::int64_t columns,
                             std::int64_t chunk_bytes = kFusedHeadBytes);

// Chooses the kernel for rows like x's, considering the current grad mode. cuda: LibTorch's GEMM,
// then a kernel on its logits, of a chunk if the head is fused.
Kernel choose_linear_cross_entropy(const at::Tensor& x_nd, const Weight& weight,
                                   const Softcap& softcap);
// Whether the fused head supports a weight [V, D] in the compute dtype with this cap, given a
// `weight.gradient`.
bool supports_fused_head(const at::Tensor& head_vd, const Softcap& softcap);
// Whether the fused head supports it in FP8; otherwise weight.fp8 and an FP8 copy of x are not
// used.
bool supports_fp8_head(const at::Tensor& head_vd, const Softcap& softcap);

}  // namespace tg
