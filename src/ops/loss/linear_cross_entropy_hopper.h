#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"
#include "ops/loss/softcap.h"

namespace tg::cuda {

// Kernels of ops/loss/linear_cross_entropy.h, in bf16, for a chunk of N tokens. Matrices are
// row-major, contiguous and 16-byte aligned; `dim` and `width` are multiples of 8.
struct LinearCrossEntropy {
  int rows, dim, width, vocab;  // N; D; rows of W, of which the first `vocab` are tokens
  tg::Softcap softcap;          // cap: at most kMaxSoftcap
  const void* x;                // [N, D]
  const void* weight;           // [width, D]
  // See LossTargets. weights and mass null: 1, with K = 1.
  int target_count;             // K
  const std::int64_t* targets;  // [N, K]
  const float* weights;         // [N, K]
  const float* mass;            // [N]
  // Operands of the first GEMM: x and weight, or with `fp8` both in e4m3; `width` is then a
  // multiple of 16.
  const void *gemm_x, *gemm_weight;
  Fp8Gemm fp8;
  // Written by linear_cross_entropy(), read by the others:
  void* unnormalised;  // [N, width]: G; with `fp8` it is fp8.copy, in e5m2
  void* transposed;    // [width, fp8_interleaved(N)]: G's transpose, with `fp8`
  float* inverse_sum;  // [N]: mass/S
  float* target_factor;  // [N, K]: (w_0 − mass·p_0)·ds/dz of the first target, w_k·ds/dz of others
};

// Returns the number of rows of the workspace `partial_sums` [., N] fp32: one per tile along the
// vocabulary.
int cross_entropy_partial_sums(int width, bool in_fp8);

// Losses of the rows, [N] each.
struct RowLosses {
  float* loss;  // weighted
  float* nll;   // −log p of the first target
};

// Computes losses (NaN if the first target is not in [0, vocab)), G, mass/S and target_factor.
void linear_cross_entropy(const LinearCrossEntropy& args, float* partial_sums,
                          const RowLosses& losses, Stream stream);

// c, the gradient of the mean with respect to a row's loss: `host` times the device scalar
// `grad_scale` (null: 1).
struct RowGradient {
  float host;
  const float* grad_scale;
};

// Computes x_scaled [N, D] = gain·c·mass·x/S.
void scale_inputs(const LinearCrossEntropy& args, const RowGradient& c, void* x_scaled,
                  Stream stream);
// Computes target_rows [N, D] = −c·target_factor_k·x of the k-th targets.
void scale_target_inputs(const LinearCrossEntropy& args, const RowGradient& c, int k,
                         void* target_rows, Stream stream);
// Computes dx [N, D] = c·(gain·mass·unnormalised_dx/S − Σ_k target_factor_k·W[target_k]) from
// unnormalised_dx = G·W.
void finish_input_gradient(const LinearCrossEntropy& args, const RowGradient& c,
                           const void* unnormalised_dx, void* dx, Stream stream);

}  // namespace tg::cuda
