#include "ops/optim/orthogonalize.h"

#include <algorithm>
#include <iterator>

#include "ops/pad.h"

namespace tg {

std::vector<QuinticStep> muon_quintic(std::int64_t steps) {
  return std::vector<QuinticStep>(static_cast<std::size_t>(steps), {3.4445, -4.7750, 2.0315});
}

std::vector<QuinticStep> polar_express(std::int64_t steps) {
  static constexpr QuinticStep kSteps[] = {
      {8.156554524902461, -22.48329292557795, 15.878769915207462},
      {4.042929935166739, -2.808917465908714, 0.5000178451051316},
      {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
      {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
      {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};
  return {kSteps, kSteps + std::min(steps, std::ssize(kSteps))};
}

at::Tensor orthogonalize(const at::Tensor& x_in, const OrthogonalizeOptions& options) {
  const auto rows = x_in.size(-2), columns = x_in.size(-1);
  auto sizes = x_in.sizes().vec();
  sizes[sizes.size() - 2] = round_up(rows, options.multiple);
  sizes[sizes.size() - 1] = round_up(columns, options.multiple);
  auto x = pad_to(x_in, sizes);
  if (options.normalize_rows) x = x / x.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-7);
  x = x / (x.norm(2, {-2, -1}, /*keepdim=*/true) * options.safety + options.epsilon);
  // A tall X is multiplied from the right, which iterates on its transpose without materializing
  // it.
  const bool tall = rows > columns;
  for (const auto& [a, b, c] : options.steps) {
    const auto gram = tall ? at::matmul(x.mT(), x) : at::matmul(x, x.mT());
    const auto sum = at::add(b * gram, at::matmul(gram, gram), c);
    x = at::add(tall ? at::matmul(x, sum) : at::matmul(sum, x), x, a);
  }
  return x.narrow(-2, 0, rows).narrow(-1, 0, columns);
}

}  // namespace tg
