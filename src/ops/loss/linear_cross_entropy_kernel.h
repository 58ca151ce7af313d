#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"
#include "ops/loss/softcap.h"

namespace tg::cuda {

// Kernels of ops/loss/linear_cross_entropy.h, in bf16, for a chunk of N tokens. Matrices are
// row-major, contiguous and 16-byte aligned; `dim` and `width` are multiples of 8. The softmax's
// gradient comes first, from a kernel or from a GEMM's epilogue (linear_cross_entropy_hopper.h).
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
  // Written by softmax_gradient():
  void* unnormalised;  // [N, width]: G; with `fp8` it is fp8.copy, in e5m2
  // Written by finish_rows(), read by the others:
  float* inverse_sum;  // [N]: mass/S
  float* target_factor;  // [N, K]: (w_0 − mass·p_0)·ds/dz of the first target, w_k·ds/dz of others
};

// Sums of e^(s−cap) over parts of each row, [parts, N] fp32: over `columns` in all, of which those
// beyond the vocabulary and the first target count as e^(−2·cap).
struct SoftmaxSums {
  int parts, columns;
};

// Computes G, which is 0 beyond the vocabulary and at the first target, and the sums (one part over
// `width` columns) from the logits [N, width] in bf16, which G in bf16 may overwrite.
void softmax_gradient(const LinearCrossEntropy& args, const void* logits, float* sums,
                      Stream stream);

// Losses of the rows, [N] each.
struct RowLosses {
  float* loss;  // weighted
  float* nll;   // −log p of the first target
};

// Computes losses (NaN if the first target is not in [0, vocab)), mass/S and target_factor.
void finish_rows(const LinearCrossEntropy& args, const float* sums, const SoftmaxSums& layout,
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
// Computes them in e4m3, transposed: [D, fp8_interleaved(N)]; D is a multiple of 16.
void scale_inputs_to_fp8(const LinearCrossEntropy& args, const RowGradient& c,
                         const Fp8Copy& transposed, Stream stream);
// Computes target_rows [N, D] = −c·target_factor_k·x of the k-th targets.
void scale_target_inputs(const LinearCrossEntropy& args, const RowGradient& c, int k,
                         void* target_rows, Stream stream);
// Computes dx [N, D] = c·(gain·mass·unnormalised_dx/S − Σ_k target_factor_k·W[target_k]) from
// unnormalised_dx = G·W.
void finish_input_gradient(const LinearCrossEntropy& args, const RowGradient& c,
                           const void* unnormalised_dx, void* dx, Stream stream);

}  // namespace tg::cuda
