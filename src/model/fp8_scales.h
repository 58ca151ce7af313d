#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/gemm/fp8.h"
#include "weights/named_tensors.h"

namespace tg {

// Delayed scaling (Micikevicius et al. 2022) of what the FP8 products of a model read beside the
// weights: during a step every tensor is rounded with one scale, and from its largest magnitude in
// all the step's micro-batches follows that of the next step. On the device, at fixed addresses.
class Fp8Scales {
 public:
  // What a step may grow by over the one before without saturating. A head's unnormalised gradient
  // and its input over S grow exponentially with logits; the former, in e5m2, has range to spare.
  static constexpr double kHeadroom = 4, kE5m2Headroom = 16;

  Fp8Scales() = default;  // without FP8
  // `products`: names of the model's products x·Wᵀ. `tokens`: that a step's loss is the mean of, to
  // which its gradients are inversely proportional.
  Fp8Scales(const std::vector<std::string>& products, std::int64_t tokens, at::Device device);

  bool defined() const { return scales_.defined(); }
  // Of the product's input x, and of the gradient of its output.
  Fp8Scaling input(std::int64_t product) const { return {scales_[0][product], amax_[0][product]}; }
  Fp8Scaling output_gradient(std::int64_t product) const {
    return {scales_[1][product], amax_[1][product], std::make_shared<Fp8Scaling::Cached>()};
  }
  // Of a head (ops/loss/linear_cross_entropy.h), which takes this product and the next: guesses of
  // the first step's largest magnitudes of G/4 and of its input scaled by 4c/S, whose scaling is
  // input(product + 1).
  void set_head(std::int64_t product, double gradient, double scaled_input);

  // The largest magnitudes since the last update(), [2, products] fp32; of several ranks, to be
  // made the largest of all.
  const at::Tensor& amax() const { return amax_; }
  const at::Tensor& scales() const { return scales_; }  // of the same shape
  // Product `to` has the scales of product `from` from now on.
  void copy(std::int64_t from, std::int64_t to) {
    scales_.select(1, to).copy_(scales_.select(1, from));
  }
  // Forgets these magnitudes.
  void drop_amax();
  // After each step. A tensor that was not finite, or all zeros, keeps its scale.
  void update();
  // What a run resumes from after update(), sharing storage: of each product the two scales [2], in
  // the order of scales()' columns.
  NamedTensors state() const;

 private:
  std::vector<std::string> products_;
  at::Tensor scales_, amax_;
  at::Tensor per_scale_;  // the amax that has a scale of 1
};

}  // namespace tg
