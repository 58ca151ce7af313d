#include "model/flops.h"

#include "config/derived.h"

namespace tg {

double training_flops_per_token(const ModelConfig& model, const Plan& plan, std::int64_t context) {
  const double dim = static_cast<double>(model.model_dim);
  const double kv_dim = static_cast<double>(model.num_kv_heads * head_dim(model));
  const double block =
      2 * dim * dim + 2 * dim * kv_dim + 2 * dim * static_cast<double>(mlp_hidden(model));
  const double visits = static_cast<double>(plan.visits.size());
  const double heads =
      static_cast<double>(model.vocab_size) * dim * static_cast<double>(1 + model.mtp_num_heads);
  // q·kᵀ and p·v over half of it on average, forward and twice backward.
  const double attention = 6 * visits * dim * static_cast<double>(context);
  return 6 * (visits * block + heads) + attention;
}

}  // namespace tg
