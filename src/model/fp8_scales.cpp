#include "model/fp8_scales.h"

namespace tg {

namespace {

// Initial scales, before any amax is known. FP8's range of 2^17 tolerates wrong guesses: inputs are
// of the order of 1, gradients of the order of one token's fraction of the mean.
constexpr double kFirstInputScale = 1.0 / 16, kFirstGradientPart = 1.0 / 64;

}  // namespace

Fp8Scales::Fp8Scales(const std::vector<std::string>& gemms, std::int64_t tokens, at::Device device)
    : gemms_(gemms),
      scales_(empty_fp8_scales({2, std::ssize(gemms)}, device)),
      amax_(at::zeros(scales_.sizes(), scales_.options())),
      per_scale_(at::full(scales_.sizes(), kFp8Max / kHeadroom, scales_.options())) {
  scales_[0].fill_(kFirstInputScale);
  scales_[1].fill_(kFirstGradientPart / static_cast<double>(tokens));
}

void Fp8Scales::set_head(std::int64_t gemm, double gradient, double scaled_input) {
  per_scale_[1][gemm].fill_(kE5m2Max / kE5m2Headroom);
  scales_[1][gemm].fill_(gradient * kE5m2Headroom / kE5m2Max);
  scales_[0][gemm + 1].fill_(scaled_input * kHeadroom / kFp8Max);
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
  for (const auto& gemm : gemms_)
    state.emplace_back("fp8_scales." + gemm, scales_.select(1, std::ssize(state)));
  return state;
}

}  // namespace tg
