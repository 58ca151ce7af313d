#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "weights/tensors/named_tensors.h"

namespace tg {

// Dynamic loss scaling (Micikevicius et al. 2018) with torch.amp.GradScaler's factors: keeps small
// fp16 activation gradients above underflow. backward starts from gradient_scale() instead of 1,
// and unscale() divides the parameters' gradients before anything reads them. On the device, at
// fixed addresses.
class LossScale {
 public:
  static constexpr double kFirst = 65536, kGrowthInterval = 2000;
  // A token's gradient is inversely proportional to the number of tokens that the loss averages
  // over. The scale is defined for a mean over this number.
  static constexpr std::int64_t kTokens = 1024;

  // tokens: number of tokens that the loss averages over, on all ranks and micro-batches.
  LossScale(at::Device device, std::int64_t tokens);

  // [] fp32: the scale times tokens / kTokens, as a power of two of at least 1.
  const at::Tensor& gradient_scale() const { return gradient_scale_; }
  // [] fp32: the scale, at least 1.
  at::Tensor value() const { return gradient_scale_ / unit_; }
  // Divides gradients by gradient_scale(), in place.
  void unscale(const std::vector<at::Tensor>& gradients) const;
  // Call it after each step. `skip` [] fp32: not 0 if gradients overflowed, which halves the scale,
  // down to 1; kGrowthInterval steps without overflow double it.
  void update(const at::Tensor& skip);
  // State by name, sharing storage.
  NamedTensors state() const;

 private:
  const double unit_;  // gradient_scale() for a scale of 1
  at::Tensor gradient_scale_, good_steps_;
};

}  // namespace tg
