#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace tg {

// The dtype in which gradients are summed and their norm is taken, fp64 for fp64, else fp32: a norm
// rounded to bf16 would depend on how the gradients are split.
at::ScalarType norm_dtype(const at::Tensor& gradient);
// Returns the norm of all tensors together, at least one, as [] in norm_dtype.
at::Tensor global_norm(const std::vector<at::Tensor>& tensors);
// min(1, max_norm/(norm + 1e-6)).
at::Tensor clip_factor(const at::Tensor& norm, double max_norm);

}  // namespace tg
