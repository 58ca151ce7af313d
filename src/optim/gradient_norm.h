#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace tg {

// Dtype of gradient sums and norms: fp64 for fp64, else fp32. A norm rounded to bf16 would depend
// on how the gradients are sharded.
at::ScalarType norm_dtype(const at::Tensor& gradient);
// The norm over all tensors, at least one → [] in norm_dtype.
at::Tensor global_norm(const std::vector<at::Tensor>& tensors);
// min(1, max_norm/(norm + 1e-6)).
at::Tensor clip_factor(const at::Tensor& norm, double max_norm);

}  // namespace tg
