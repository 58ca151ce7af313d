#include <algorithm>

#include "op_rows.h"
#include "ops/optim/muon_update.h"
#include "ops/optim/orthogonalize.h"

namespace tg {

void muon_rows(OpTimer& timer, const Recipe& r, const Inputs& make) {
  // FLOPs of an iteration: 2·m·m·n for X·Xᵀ, 2·m³ for A·A and 2·m·m·n for B·X, m the shorter side.
  const double m = static_cast<double>(std::min(r.dim, r.hidden));
  const double n = static_cast<double>(std::max(r.dim, r.hidden));
  const double iteration_flops = 5.0 * static_cast<double>(r.layers) * 2 * m * m * (2 * n + m);
  timer.row("newton_schulz of the up bank", gemms(iteration_flops, no_backward),
            {make({r.layers, r.hidden, r.dim})}, [](const auto& in) {
              return Tensors{orthogonalize(in[0], {.steps = muon_quintic(5)})};
            });
  // Newton-Schulz and the two elementwise parts around it, as in a step.
  const auto bank = make.fp32({r.layers, r.hidden, r.dim}).detach();
  const auto momentum = make({r.layers, r.hidden, r.dim}).detach();
  const auto scalar = at::full({}, 0.025, make.options.dtype(at::kFloat));
  const auto never = at::zeros({}, make.options.dtype(at::kBool));
  timer.row("muon of the up bank", own_gemms(iteration_flops, no_backward),
            {make({r.layers, r.hidden, r.dim}).detach()}, [&](const auto& in) {
              const auto ahead = nesterov_momentum(momentum, in[0], scalar, scalar, never);
              decayed_step(bank, orthogonalize(ahead, {.steps = muon_quintic(5)}), scalar, 0.04,
                           1.7);
              return Tensors{bank};
            });
}

}  // namespace tg
