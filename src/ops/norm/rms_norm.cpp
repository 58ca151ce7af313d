#include "ops/norm/rms_norm.h"

#include <cmath>

namespace tg {

at::Tensor rms_norm(const at::Tensor& x, std::int64_t channels) {
  constexpr double kEpsilon = 1.1920929e-07;  // float32's machine epsilon, for every dtype
  const auto width = x.size(-1);
  if (channels == 0 || channels == width) return at::rms_norm(x, {width}, /*weight=*/{}, kEpsilon);
  // The mean over the width is `share` of that over the channels.
  const double share = static_cast<double>(channels) / static_cast<double>(width);
  return at::rms_norm(x, {width}, /*weight=*/{}, kEpsilon * share) * std::sqrt(share);
}

}  // namespace tg
