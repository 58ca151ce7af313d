#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace tg {

// SGD with momentum, as torch.optim.SGD: b ← μ·b + g; p ← p − lr·b. Without weight decay.
class Sgd {
 public:
  // Parameters may be views; state is kept in their dtype.
  Sgd(std::vector<at::Tensor> parameters, double momentum);

  // `gradients`: one for each parameter.
  void step(const std::vector<at::Tensor>& gradients, double lr);

 private:
  std::vector<at::Tensor> parameters_, momentum_buffers_;
  double momentum_;
};

}  // namespace tg
