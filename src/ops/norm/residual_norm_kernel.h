#pragma once
#include "device/launch.h"

namespace tg::cuda {

// See residual_norm.h. A null pointer leaves its term out. Tensors of one type, [count, width],
// and fp32 parameters, all contiguous from addresses that are multiples of 16 bytes; a width that
// is a multiple of 8 and at most kResidualNormWidth.
inline constexpr int kResidualNormWidth = 2048;

struct ResidualNormRows {
  std::int64_t count;
  int width;
  Float number;
  float norm_scale;
};
struct ResidualNormTerms {
  const void *x, *branch, *skip, *x0;
  const float *branch_scale, *skip_weight, *mix;
  bool mix_is_vector;  // mix [2, width], else [2]
};
// `residual` is x'. What is null is not written.
void residual_norm_forward(const ResidualNormTerms& terms, const ResidualNormRows& rows, void* sum,
                           void* residual, void* y, Stream stream);

// Backward takes the same terms, but without a mix x' in the place of x, and then `branch` only for
// branch_scale's gradient and `skip` only for skip_weight's.
struct ResidualNormGradients {
  const void *dsum, *dresidual, *dy, *dx0_later;  // upstream; null: zero
  void *dx, *dbranch, *dskip, *dx0;               // null: not wanted; dx0 may be dx0_later
};

// The parameters' gradients are one row of fp32: branch_scale's columns, the two of a vector mix,
// skip_weight's, up to the last that is there; then the two numbers of a scalar mix.
inline int residual_norm_vectors(const ResidualNormTerms& terms) {
  return terms.skip != nullptr ? 4 : terms.mix_is_vector ? 3 : terms.branch_scale != nullptr;
}
inline std::int64_t residual_norm_columns(const ResidualNormTerms& terms,
                                          const ResidualNormRows& rows) {
  const bool scalar_mix = terms.mix != nullptr && !terms.mix_is_vector;
  return std::int64_t{residual_norm_vectors(terms)} * rows.width + (scalar_mix ? 2 : 0);
}
// Each block sums such a row.
int residual_norm_blocks(const ResidualNormTerms& terms, const ResidualNormRows& rows);

// parameter_sums [columns], with partials [blocks, columns] to work in.
void residual_norm_backward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                            const ResidualNormGradients& gradients, int blocks, float* partials,
                            float* parameter_sums, Stream stream);

}  // namespace tg::cuda
