#pragma once
#include "ops/fused.h"
#include "ops/gemm/linear.h"
#include "ops/loss/softcap_cross_entropy_kernel.h"

namespace tg {

// Minimum number of columns for the fused head (see linear_cross_entropy): the passes over [N, D]
// that it adds cost as much as the pass over [N, V] that it saves at V of about 12·D. On an H100
// with 8,192 columns it takes 6 % less time with D = 512, 2 % more with 768.
inline constexpr std::int64_t kMinFusedColumns = 8192;

// Largest chunk of the logits' gradient in bytes. Smaller chunks read and write the fp32 dW more
// often and make GEMMs smaller. 576 MiB hold 5,888 rows of GPT-2's 50,304 columns; 65,536 tokens
// thus make chunks of 5,632, whose dx with D = 768 is one 128×256 tile for each of an H100's 132
// SMs.
inline constexpr std::int64_t kFusedHeadBytes = std::int64_t{576} << 20;

// Options as softcap_cross_entropy's parameters.
struct CrossEntropyOptions {
  double cap;
  double scale = 1;
  std::int64_t vocab = 0;
  at::Tensor grad_scale{};
  std::int64_t chunk_bytes = kFusedHeadBytes;  // smaller in tests
};

// Computes softcap_cross_entropy(x·Wᵀ, targets): x [N, D], not in the form `quantized`, weight [at
// least vocab, D], targets [N] int64 → [] fp32. The weight's gradient is as in linear().
//
// Fused head, on Hopper in bf16 with at least kMinFusedColumns columns, a cap up to
// cuda::kMaxSoftcap and `weight.gradient`: there is no pass over the logits [N, V] between the
// GEMMs, and only one chunk of tokens has its logits materialized at a time. The forward pass also
// computes the gradients, chunk by chunk, with dW in fp32, and keeps dx and dW for backward, which
// multiplies them by the upstream gradient. Forward without backward therefore costs three GEMMs
// rather than one.
// Softcapped logits s are bounded, so that the softmax needs no row maximum: the first GEMM's
// epilogue stores the unnormalised gradient G = e^(s−cap)·ds/dz and the row sums S of e^(s−cap).
// With dz = c·(G/S − onehot·(1 − p)·ds/dz), where G is 0 at the target and c = scale/N:
//   dx = c·((G·W)/S − (1 − p)·ds/dz·W[target])
//   dW = Gᵀ·(c·x/S) − c·(1 − p)·ds/dz·x added to row `target`
// The target's terms are in fp32 up to the final rounding, since p may be close to 1. With
// weight.fp8 all three GEMMs have FP8 operands, but the target's logit and W[target] use the 16-bit
// operands: the reported loss may then be too low by quantization error that the head adapts to,
// but with quantized ones training ended at a higher loss (docs/benchmarks.md). G is in e5m2, since
// its elements span the range of e^s. c·x/S has one scale for all tokens: a token whose S exceeds
// the step's smallest by e^7 loses bits in dW, by e^10 everything but its target's term.
at::Tensor linear_cross_entropy(const NormedInput& x_nd, const Weight& weight,
                                const at::Tensor& targets_n, const CrossEntropyOptions& options);

// Returns the rows per chunk for `rows` tokens: the fewest equal chunks that fit chunk_bytes, in
// whole cluster tiles of the GEMM; the last chunk may be smaller.
std::int64_t fused_head_rows(std::int64_t rows, std::int64_t columns,
                             std::int64_t chunk_bytes = kFusedHeadBytes);

// Chooses the kernel for rows like x's, considering the current grad mode. cuda:
// softcap_cross_entropy()'s kernel after LibTorch's GEMM.
Kernel choose_linear_cross_entropy(const at::Tensor& x_nd, const Weight& weight, double cap);
// Whether the fused head supports a weight [V, D] in the compute dtype with this cap, given a
// `weight.gradient`.
bool supports_fused_head(const at::Tensor& head_vd, double cap);
// Whether the fused head supports it in FP8; otherwise weight.fp8 and an FP8 copy of x are not
// used.
bool supports_fp8_head(const at::Tensor& head_vd, double cap);

}  // namespace tg
