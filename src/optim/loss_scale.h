#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "weights/named_tensors.h"

namespace tg {

// Dynamic loss scaling (Micikevicius et al. 2018), with the factors of torch.amp.GradScaler: where
// activations have a gradient in fp16, small ones would round to zero, so that it begins as
// gradient_scale() instead of 1, and the parameters' gradients are divided by it before anything
// reads them. All of it stays on the device, at fixed addresses.
class LossScale {
 public:
  static constexpr double kFirst = 65536, kGrowthInterval = 2000;
  // The more tokens a loss averages, the smaller is a token's part of its gradient. The scale is
  // for a mean over this many tokens.
  static constexpr std::int64_t kTokens = 1024;

  // tokens: that the loss is the mean of, over all ranks and micro-batches.
  LossScale(at::Device device, std::int64_t tokens);

  // [] fp32: the scale times tokens / kTokens, as a power of two of at least 1.
  const at::Tensor& gradient_scale() const { return gradient_scale_; }
  // [] fp32: the scale, at least 1.
  at::Tensor value() const { return gradient_scale_ / unit_; }
  // Divides gradients by gradient_scale(), in place.
  void unscale(const std::vector<at::Tensor>& gradients) const;
  // After each step. `skip` [] fp32 is not 0 where the gradients overflowed: halved, down to 1;
  // doubled after kGrowthInterval steps without.
  void update(const at::Tensor& skip);
  // By name, sharing storage.
  NamedTensors state() const;

 private:
  const double unit_;  // gradient_scale() where the scale is 1
  at::Tensor gradient_scale_, good_steps_;
};

}  // namespace tg
