#include "ops/optim/newton_schulz.h"

namespace tg {

at::Tensor newton_schulz(const at::Tensor& x_in, std::int64_t steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const bool tall = x_in.size(-2) > x_in.size(-1);
  auto x = tall ? x_in.mT() : x_in;
  x = x / (x.norm(2, {-2, -1}, /*keepdim=*/true) + 1e-7);
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto a = at::matmul(x, x.mT());
    const auto b = at::add(kB * a, at::matmul(a, a), kC);
    x = at::add(at::matmul(b, x), x, kA);
  }
  return tall ? x.mT() : x;
}

}  // namespace tg
