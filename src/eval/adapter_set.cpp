#include "eval/adapter_set.h"

namespace tg {

AdapterSet::AdapterSet(const Gpt& model, const PhasedTttConfig& config, std::int64_t rows,
                       at::Generator& generator)
    : warm_start_(config.ttt_warm_start_a),
      adapters_(model,
                {.rank = config.ttt_lora_rank,
                 .alpha = config.ttt_lora_alpha,
                 .keys = config.ttt_k_lora,
                 .mlp = config.ttt_mlp_lora,
                 .out = config.ttt_o_lora},
                rows, generator),
      optimizer_(adapters_.parameters(), {.rule = config.ttt_optimizer,
                                          .lr = config.ttt_lora_lr,
                                          .beta1 = config.ttt_beta1,
                                          .beta2 = config.ttt_beta2,
                                          .weight_decay = config.ttt_weight_decay}) {}

void AdapterSet::restart(at::Generator& generator) {
  if (!warm_start_) redraw(generator);
  adapters_.zero_b();
  optimizer_.reset();
  learning_rows_ = adapters_.rows();
}

void AdapterSet::learn_in_last(std::int64_t rows) {
  // What is left of their last gradient; the other rows' is written anew.
  if (rows < learning_rows_) adapters_.parameters().grad().zero_();
  learning_rows_ = rows;
}

}  // namespace tg
