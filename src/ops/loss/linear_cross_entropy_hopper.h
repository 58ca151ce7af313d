#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg::cuda {

// Kernels of ops/loss/linear_cross_entropy.h, in bf16, for a chunk of N tokens. Matrices are
// row-major and contiguous, at addresses that are multiples of 16 bytes, `dim` and `width`
// multiples of 8.
struct LinearCrossEntropy {
  int rows, dim, width, vocab;  // N; D; rows of W, of which the first `vocab` are tokens
  float cap;                    // at most kMaxSoftcap
  const void* x;                // [N, D]
  const void* weight;           // [width, D]
  const std::int64_t* targets;  // [N]
  // What the first GEMM multiplies: x and weight, or with `fp8` both as e4m3, `width` a multiple of
  // 16.
  const void *gemm_x, *gemm_weight;
  Fp8Gemm fp8;
  // Written by linear_cross_entropy(), read by the others:
  void* unnormalised;    // [N, width]: G; with `fp8` it is fp8.copy, in e5m2,
  void* transposed;      // and here its transpose [width, fp8_interleaved(N)]
  float* inverse_sum;    // [N]: 1/S
  float* target_factor;  // [N]: (1 − p)·ds/dz of the target
};

// Rows of the workspace `partial_sums` [., N] fp32: one per tile along the vocabulary.
int cross_entropy_partial_sums(int width, bool in_fp8);

// nll [N], NaN where the target is not in [0, vocab).
void linear_cross_entropy(const LinearCrossEntropy& of, float* partial_sums, float* nll,
                          Stream stream);

// c, the gradient of loss with respect to nll: `host` times the scalar on the device, unless that
// is null.
struct NllGradient {
  float host;
  const float* grad_scale;
};

// x_scaled [N, D] = c·x/S.
void scale_inputs(const LinearCrossEntropy& of, const NllGradient& c, void* x_scaled,
                  Stream stream);
// target_rows [N, D] = −c·target_factor·x.
void scale_target_inputs(const LinearCrossEntropy& of, const NllGradient& c, void* target_rows,
                         Stream stream);
// dx [N, D] = c·(product/S − target_factor·W[target]), from the GEMM product [N, D] = G·W.
void finish_input_gradient(const LinearCrossEntropy& of, const NllGradient& c, const void* product,
                           void* dx, Stream stream);

}  // namespace tg::cuda
