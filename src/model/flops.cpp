#include "model/flops.h"

#include <algorithm>

#include "config/derived.h"

namespace tg {

double training_flops_per_token(const ModelConfig& model, const Pass& pass, std::int64_t context) {
  const double dim = static_cast<double>(model.model_dim);
  const double kv_dim = static_cast<double>(model.num_kv_heads * head_dim(model));
  const double block =
      2 * dim * dim + 2 * dim * kv_dim + 2 * dim * static_cast<double>(mlp_hidden(model));
  const double visits = static_cast<double>(pass.visits.size());
  const double heads =
      static_cast<double>(model.vocab_size) * dim * static_cast<double>(1 + model.mtp_num_heads);
  // Twice the keys that a query sees on average: n, with a window of w ones 2w − w²/n.
  double keys = 0;
  for (const auto& visit : pass.visits) {
    const auto seen = visit.window > 0 ? std::min(visit.window, context) : context;
    const double n = static_cast<double>(context), w = static_cast<double>(seen);
    keys += 2 * w - w * w / n;
  }
  // q·kᵀ and p·v, forward and twice backward.
  const double attention = 6 * dim * keys;
  return 6 * (visits * block + heads) + attention;
}

}  // namespace tg
