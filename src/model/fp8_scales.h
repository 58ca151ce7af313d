#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/gemm/fp8.h"
#include "weights/named_tensors.h"

namespace tg {

// Delayed scaling (Micikevicius et al. 2022) of the FP8 GEMMs' operands beside the weights: during
// a step every tensor is rounded with one scale; its largest magnitude over all the step's
// micro-batches gives the next step's scale. On the device, at fixed addresses.
class Fp8Scales {
 public:
  // What a step may grow by over the one before without saturating. A head's unnormalised gradient
  // and its input over S grow exponentially with logits; the former, in e5m2, has range to spare.
  static constexpr double kHeadroom = 4, kE5m2Headroom = 16;

  Fp8Scales() = default;  // without FP8
  // `products`: names of the model's GEMMs x·Wᵀ. `tokens`: the tokens that a step's loss averages,
  // to which its gradients are inversely proportional.
  Fp8Scales(const std::vector<std::string>& products, std::int64_t tokens, at::Device device);

  bool defined() const { return scales_.defined(); }
  // Scaling of the GEMM's input x, and of its output's gradient.
  Fp8Scaling input(std::int64_t product) const { return {scales_[0][product], amax_[0][product]}; }
  Fp8Scaling output_gradient(std::int64_t product) const {
    return {scales_[1][product], amax_[1][product], std::make_shared<Fp8Scaling::Cached>()};
  }
  // Sets the guesses of a head (ops/loss/linear_cross_entropy.h), which takes this GEMM's scales
  // and the next one's: the first step's largest magnitudes of G/4 and of its input scaled by 4c/S,
  // whose scaling is input(product + 1).
  void set_head(std::int64_t product, double gradient, double scaled_input);

  // Largest magnitudes since the last update(), [2, products] fp32; with several ranks the caller
  // reduces them by maximum.
  const at::Tensor& amax() const { return amax_; }
  const at::Tensor& scales() const { return scales_; }  // of the same shape
  // Copies the scales of GEMM `from` to GEMM `to`.
  void copy(std::int64_t from, std::int64_t to) {
    scales_.select(1, to).copy_(scales_.select(1, from));
  }
  // Forgets these magnitudes.
  void drop_amax();
  // After each step. A tensor that was not finite, or all zeros, keeps its scale.
  void update();
  // State that a run resumes from after update(), sharing storage: per GEMM its two scales [2], in
  // the order of scales()' columns.
  NamedTensors state() const;

 private:
  std::vector<std::string> products_;
  at::Tensor scales_, amax_;
  at::Tensor per_scale_;  // the amax that has a scale of 1
};

}  // namespace tg
