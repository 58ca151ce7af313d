#include "model/fp8_scales.h"

namespace tg {

namespace {

// Guesses for the first step, whose magnitudes are unknown. FP8's range of 2^17 leaves room for
// both: inputs are of the order of 1, gradients of the order of a token's part of the mean.
constexpr double kFirstInputScale = 1.0 / 16, kFirstGradientPart = 1.0 / 64;

}  // namespace

Fp8Scales::Fp8Scales(const std::vector<std::string>& products, std::int64_t tokens,
                     at::Device device)
    : products_(products),
      scales_(empty_fp8_scales({2, std::ssize(products)}, device)),
      amax_(at::zeros(scales_.sizes(), scales_.options())),
      per_scale_(at::full(scales_.sizes(), kFp8Max / kHeadroom, scales_.options())) {
  scales_[0].fill_(kFirstInputScale);
  scales_[1].fill_(kFirstGradientPart / static_cast<double>(tokens));
}

void Fp8Scales::set_head(std::int64_t product, double gradient, double scaled_input) {
  per_scale_[1][product].fill_(kE5m2Max / kE5m2Headroom);
  scales_[1][product].fill_(gradient * kE5m2Headroom / kE5m2Max);
  scales_[0][product + 1].fill_(scaled_input * kHeadroom / kFp8Max);
}

void Fp8Scales::drop_amax() {
  if (defined()) amax_.zero_();
}

void Fp8Scales::update() {
  if (!defined()) return;
  const at::NoGradGuard no_grad;
  const auto seen = amax_.isfinite().logical_and_(amax_ > 0);
  scales_.copy_(at::where(seen, amax_ / per_scale_, scales_));
  drop_amax();
}

NamedTensors Fp8Scales::state() const {
  NamedTensors state;
  for (const auto& product : products_)
    state.emplace_back("fp8_scales." + product, scales_.select(1, std::ssize(state)));
  return state;
}

}  // namespace tg
