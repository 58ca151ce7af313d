#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/gemm/fp8.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Delayed scaling (Micikevicius et al. 2022) of the activations and gradients that FP8 GEMMs read.
// A tensor has one scale for the whole step; its amax over all micro-batches of the step sets the
// scale of the next step. On the device, at fixed addresses.
class Fp8Scales {
 public:
  // Growth from one step to the next that does not saturate. The unnormalised gradient G of a head
  // and its input over S grow exponentially with the logits; G, in e5m2, has range to spare.
  static constexpr double kHeadroom = 4, kE5m2Headroom = 16;

  Fp8Scales() = default;  // without FP8
  // `gemms`: names of the model's GEMMs x·Wᵀ. `tokens`: number of tokens that a step's loss
  // averages over; gradients are inversely proportional to it.
  Fp8Scales(const std::vector<std::string>& gemms, std::int64_t tokens, at::Device device);

  bool defined() const { return scales_.defined(); }
  // Scaling of the GEMM's input x, and of its output's gradient.
  // `cached`: the operation that computes the input quantizes it, too.
  Fp8Scaling input(std::int64_t gemm, bool cached = false) const {
    return {scales_[0][gemm], amax_[0][gemm],
            cached ? std::make_shared<Fp8Scaling::Cached>() : nullptr};
  }
  Fp8Scaling output_gradient(std::int64_t gemm) const {
    return {scales_[1][gemm], amax_[1][gemm], std::make_shared<Fp8Scaling::Cached>()};
  }
  // Initial guesses for a head (ops/loss/linear_cross_entropy.h), which uses the scales of this
  // GEMM and the next one: amax of G/4, and of the input times 4c/S, whose scaling is input(gemm +
  // 1).
  void set_head(std::int64_t gemm, double gradient, double scaled_input);

  // Largest magnitudes since the last update(), [2, GEMMs] fp32; all-reduce them with max before
  // update() if there are several ranks.
  const at::Tensor& amax() const { return amax_; }
  const at::Tensor& scales() const { return scales_; }  // [2, GEMMs] fp32
  // Copies the scales of GEMM `from` to GEMM `to`.
  void copy(std::int64_t from, std::int64_t to) {
    scales_.select(1, to).copy_(scales_.select(1, from));
  }
  // Resets the magnitudes.
  void drop_amax();
  // Sets the scales from amax; call it after each step. A tensor that was not finite, or all zeros,
  // keeps its scale.
  void update();
  // State to save after update(), sharing storage: both scales [2] of each GEMM, in the order of
  // the columns of scales().
  NamedTensors state() const;

 private:
  std::vector<std::string> gemms_;
  at::Tensor scales_, amax_;
  at::Tensor per_scale_;  // the amax whose scale is 1
};

}  // namespace tg
