#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg::cuda {

// Kernels of ops/loss/linear_cross_entropy.h, in bf16, for a chunk of N tokens. Matrices are
// row-major, contiguous and 16-byte aligned; `dim` and `width` are multiples of 8.
struct LinearCrossEntropy {
  int rows, dim, width, vocab;  // N; D; rows of W, of which the first `vocab` are tokens
  float cap;                    // at most kMaxSoftcap
  const void* x;                // [N, D]
  const void* weight;           // [width, D]
  const std::int64_t* targets;  // [N]
  // Operands of the first GEMM: x and weight, or with `fp8` both in e4m3; `width` is then a
  // multiple of 16.
  const void *gemm_x, *gemm_weight;
  Fp8Gemm fp8;
  // Written by linear_cross_entropy(), read by the others:
  void* unnormalised;    // [N, width]: G; with `fp8` it is fp8.copy, in e5m2
  void* transposed;      // [width, fp8_interleaved(N)]: G's transpose, with `fp8`
  float* inverse_sum;    // [N]: 1/S
  float* target_factor;  // [N]: (1 − p)·ds/dz of the target
};

// Returns the number of rows of the workspace `partial_sums` [., N] fp32: one per tile along the
// vocabulary.
int cross_entropy_partial_sums(int width, bool in_fp8);

// Computes nll [N] (NaN if the target is not in [0, vocab)), G, 1/S and target_factor.
void linear_cross_entropy(const LinearCrossEntropy& args, float* partial_sums, float* nll,
                          Stream stream);

// c, the gradient of the loss with respect to nll: `host` times the device scalar `grad_scale`
// (null: 1).
struct NllGradient {
  float host;
  const float* grad_scale;
};

// Computes x_scaled [N, D] = c·x/S.
void scale_inputs(const LinearCrossEntropy& args, const NllGradient& c, void* x_scaled,
                  Stream stream);
// Computes target_rows [N, D] = −c·target_factor·x.
void scale_target_inputs(const LinearCrossEntropy& args, const NllGradient& c, void* target_rows,
                         Stream stream);
// Computes dx [N, D] = c·(unnormalised_dx/S − target_factor·W[target]) from unnormalised_dx = G·W.
void finish_input_gradient(const LinearCrossEntropy& args, const NllGradient& c,
                           const void* unnormalised_dx, void* dx, Stream stream);

}  // namespace tg::cuda
