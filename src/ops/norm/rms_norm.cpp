#include "ops/norm/rms_norm.h"

#include <cmath>

namespace tg {

at::Tensor rms_norm(const at::Tensor& x, std::int64_t channels) {
  constexpr double kEpsilon = 1.1920929e-07;  // float32's machine epsilon, for every dtype
  const auto width = x.size(-1);
  if (channels == 0 || channels == width) return at::rms_norm(x, {width}, /*weight=*/{}, kEpsilon);
  // mean over the width = fraction · mean over the channels, since the padding is zero.
  const double fraction = static_cast<double>(channels) / static_cast<double>(width);
  return at::rms_norm(x, {width}, /*weight=*/{}, kEpsilon * fraction) * std::sqrt(fraction);
}

}  // namespace tg
