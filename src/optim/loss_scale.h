#pragma once
#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

namespace tg {

// Dynamic loss scaling (Micikevicius et al. 2018), with the factors of torch.amp.GradScaler: where
// activations have a gradient in fp16, small ones would round to zero, so that it begins as `scale`
// instead of 1, and the parameters' gradients are divided by it before anything reads them. All of
// it stays on the device, at fixed addresses.
class LossScale {
 public:
  static constexpr double kFirst = 65536, kGrowthInterval = 2000;

  explicit LossScale(at::Device device);

  // [] fp32, at least 1.
  const at::Tensor& value() const { return value_; }
  // Divides gradients by it, in place.
  void unscale(const std::vector<at::Tensor>& gradients) const;
  // After each step. `skip` [] fp32 is not 0 where the gradients overflowed: halved, down to 1;
  // doubled after kGrowthInterval steps without.
  void update(const at::Tensor& skip);
  // By name, sharing storage.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

 private:
  at::Tensor value_, good_steps_;
};

}  // namespace tg
