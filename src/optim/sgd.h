#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace tg {

// SGD with momentum and coupled weight decay, as torch.optim.SGD: b ← μ·b + g + decay·p;
// p ← p − lr·b.
class Sgd {
 public:
  // Parameters may be views; state is kept in their dtype.
  Sgd(std::vector<at::Tensor> parameters, double momentum, double weight_decay = 0);

  // `gradients`: one for each parameter.
  void step(const std::vector<at::Tensor>& gradients, double lr);
  // Zeroes the momentum.
  void reset();

 private:
  std::vector<at::Tensor> parameters_, momentum_buffers_;
  double momentum_, weight_decay_;
};

}  // namespace tg
