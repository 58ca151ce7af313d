#include "model/flops.h"

#include <algorithm>

namespace tg {

double training_flops_per_token(const Plan& plan, const Pass& pass, std::int64_t context) {
  const auto& shape = plan.shape;
  const double dim = static_cast<double>(shape.dim);
  const double kv_dim = static_cast<double>(shape.kv_heads * shape.head_dim);
  const double attention_matrices = 2 * dim * dim + 2 * dim * kv_dim;
  const double mlp_matrices = 2 * dim * static_cast<double>(shape.hidden);
  double matrices = 0;
  const double heads = static_cast<double>(shape.vocab) * dim *
                       static_cast<double>(1 + plan.head.multi_token.size());
  // Twice the average number of keys per query: n, or 2w − w²/n with a window w.
  double keys = 0;
  for (const auto& call : pass.calls) {
    matrices += mlp_matrices;
    if (!call.attends) continue;
    matrices += attention_matrices;
    const auto seen = call.window > 0 ? std::min(call.window, context) : context;
    const double n = static_cast<double>(context), w = static_cast<double>(seen);
    keys += 2 * w - w * w / n;
  }
  // q·kᵀ and p·v: once forward, twice backward.
  const double attention = 6 * dim * keys;
  return 6 * (matrices + heads) + attention;
}

}  // namespace tg
