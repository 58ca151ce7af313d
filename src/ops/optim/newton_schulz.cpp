#include "ops/optim/newton_schulz.h"

#include "ops/pad.h"

namespace tg {

at::Tensor newton_schulz(const at::Tensor& x_in, std::int64_t steps, std::int64_t multiple) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  const auto rows = x_in.size(-2), columns = x_in.size(-1);
  auto sizes = x_in.sizes().vec();
  sizes[sizes.size() - 2] = round_up(rows, multiple);
  sizes[sizes.size() - 1] = round_up(columns, multiple);
  auto x = pad_to(x_in, sizes);
  x = x / (x.norm(2, {-2, -1}, /*keepdim=*/true) + 1e-7);
  // The iteration on the transpose of a tall X multiplies from the right: no transpose is written.
  const bool tall = rows > columns;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto a = tall ? at::matmul(x.mT(), x) : at::matmul(x, x.mT());
    const auto b = at::add(kB * a, at::matmul(a, a), kC);
    x = at::add(tall ? at::matmul(x, b) : at::matmul(b, x), x, kA);
  }
  return x.narrow(-2, 0, rows).narrow(-1, 0, columns);
}

}  // namespace tg
