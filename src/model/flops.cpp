#include "model/flops.h"

#include <algorithm>

namespace tg {

double training_flops_per_token(const Plan& plan, const Pass& pass, std::int64_t context) {
  const auto& shape = plan.shape;
  const double dim = static_cast<double>(shape.dim);
  const double queries = static_cast<double>(shape.heads * shape.qk_head_dim);
  const double attended = static_cast<double>(shape.heads * shape.head_dim);
  const double kv_heads = static_cast<double>(shape.kv_heads);
  const double kv_channels = static_cast<double>(shape.qk_head_dim + shape.head_dim);
  const double attention_matrices = dim * (queries + attended + kv_heads * kv_channels);
  const double mlp_matrices = 2 * dim * static_cast<double>(shape.hidden);
  double matrices = 0;
  const double heads = static_cast<double>(shape.vocab) * dim *
                       static_cast<double>(1 + plan.head.multi_token.size());
  // Twice the average number of keys that a query sees, of n: n, or 2w − w²/n with a window w.
  const auto seen = [](std::int64_t window, std::int64_t length) {
    const auto n = static_cast<double>(length);
    const auto w = window > 0 ? static_cast<double>(std::min(window, length)) : n;
    return 2 * w - w * w / n;
  };
  double keys = 0;
  for (const auto& call : pass.calls) {
    matrices += mlp_matrices;
    if (!call.attends) continue;
    matrices += attention_matrices;
    // Paired heads: twice the queries of half the heads.
    keys += seen(call.window, call.paired ? 2 * context : context);
    if (call.composed_window > 0) keys += seen(call.composed_window, context);
  }
  // q·kᵀ and p·v: once forward, twice backward.
  const double attention = 3 * (queries + attended) * keys;
  return 6 * (matrices + heads) + attention;
}

}  // namespace tg
