#include "optim/gradient_norm.h"

namespace tg {

at::ScalarType norm_dtype(const at::Tensor& gradient) {
  return gradient.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor global_norm(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> norms;
  for (const auto& norm : at::_foreach_norm(tensors, 2, norm_dtype(tensors.front())))
    norms.push_back(norm);
  return at::stack(norms).norm();
}

at::Tensor clip_factor(const at::Tensor& norm, double max_norm) {
  return (max_norm / (norm + 1e-6)).clamp_max(1.0);
}

}  // namespace tg
