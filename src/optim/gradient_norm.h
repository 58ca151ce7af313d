#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace tg {

// Dtype of gradient sums and norms: fp64 for fp64, else fp32. A norm rounded to bf16 would depend
// on how the gradients are sharded.
inline at::ScalarType norm_dtype(const at::Tensor& gradient) {
  return gradient.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
// The norm over all tensors, at least one → [] in norm_dtype.
inline at::Tensor global_norm(const std::vector<at::Tensor>& tensors) {
  return at::stack(at::_foreach_norm(tensors, 2, norm_dtype(tensors.front()))).norm();
}
// min(1, max_norm/(norm + 1e-6)).
inline at::Tensor clip_factor(const at::Tensor& norm, double max_norm) {
  return (max_norm / (norm + 1e-6)).clamp_max(1.0);
}

}  // namespace tg
