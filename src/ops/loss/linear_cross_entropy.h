#pragma once
#include "ops/fused.h"
#include "ops/gemm/linear.h"
#include "ops/loss/softcap_cross_entropy_kernel.h"

namespace tg {

// Columns of logits from which no pass over them remains, see below: the passes over [N, D] that it
// adds cost as much as the one over [N, V] that it saves at some 12 times D. On an H100 8,192
// columns take 6 % less time so with D = 512, 2 % more with 768.
inline constexpr std::int64_t kMinFusedColumns = 8192;

// Bytes of the logits' gradient that are there at once, see below. With fewer, dW in fp32 is read
// and written more often, and GEMMs are smaller: 576 MiB are 5,888 rows of GPT-2's 50,304 columns,
// of which 65,536 tokens make chunks of 5,632, whose dx with D = 768 is one tile of 128×256 for
// each of an H100's 132 SMs.
inline constexpr std::int64_t kFusedHeadBytes = std::int64_t{576} << 20;

// Which rows and columns of the logits count, and what the gradient is multiplied by: as the
// parameters of softcap_cross_entropy.
struct CrossEntropyOptions {
  double cap;
  double scale = 1;
  std::int64_t vocab = 0;
  at::Tensor grad_scale{};
  std::int64_t chunk_bytes = kFusedHeadBytes;  // tests want more chunks
};

// softcap_cross_entropy(x·Wᵀ, targets): x [N, D], never in FP8 alone, weight [at least vocab, D],
// targets [N] int64 → [] fp32. Weight gradients as linear()'s.
//
// On Hopper, in bf16, with kMinFusedColumns, a cap up to cuda::kMaxSoftcap and `weight.gradient`,
// no pass over the logits [N, V] remains between the GEMMs, and only a chunk of tokens has its
// logits at a time: the forward pass computes the gradients, too, chunk by chunk, dW in fp32. It
// keeps dx and dW for backward, which multiplies them by the upstream gradient. Forward without
// backward so costs three GEMMs rather than one.
// Softcapped logits s are bounded, so that a softmax needs no maximum: the first GEMM's epilogue
// stores G = e^(s−cap)·ds/dz, the gradient without its normalisation, and sums S of the weights per
// row. With dz = c·(G/S − onehot·(1 − p)·ds/dz), where G is 0 at the target and c = scale/N:
//   dx = c·((G·W)/S − (1 − p)·ds/dz·W[target])
//   dW = Gᵀ·(c·x/S) − c·(1 − p)·ds/dz·x added to row `target`
// The target's own terms are in fp32 up to the last rounding, since p may be near 1. With
// weight.fp8 all three GEMMs have FP8 operands, and the target's logit and W[target] 16-bit ones:
// the loss may read low by what the head hides from rounding, but with rounded ones training ended
// higher (docs/optimizations.md). G is in e5m2: its elements span the range of e^s. c·x/S has one
// scale for all tokens: a token whose S is above the least of the step's by e^7 loses bits in dW,
// by e^10 all but its target's own term.
at::Tensor linear_cross_entropy(const NormedInput& x_nd, const Weight& weight,
                                const at::Tensor& targets_n, const CrossEntropyOptions& options);

// Tokens of a chunk, of `rows` in all: the fewest equal chunks that fit, of whole clusters of the
// GEMM's tiles; the last one may have fewer.
std::int64_t fused_head_rows(std::int64_t rows, std::int64_t columns,
                             std::int64_t chunk_bytes = kFusedHeadBytes);

// Returns the kernel for rows like x's, with gradients or without as autograd is now. cuda:
// softcap_cross_entropy's kernel, after LibTorch's GEMM.
Kernel choose_linear_cross_entropy(const at::Tensor& x_nd, const Weight& weight, double cap);
// Whether training needs no pass over the logits of a head [V, D] in the compute dtype with this
// cap, if it has a `weight.gradient`.
bool supports_fused_head(const at::Tensor& head_vd, double cap);
// Whether that form serves it in FP8: only then is weight.fp8 read, and x in FP8.
bool supports_fp8_head(const at::Tensor& head_vd, double cap);

}  // namespace tg
