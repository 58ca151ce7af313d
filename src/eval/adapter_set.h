#pragma once
#include "config/phased_ttt_config.h"
#include "model/gpt.h"
#include "model/lora.h"
#include "optim/adapter_optimizer.h"

namespace tg {

// The adapters of a batch's documents, one of each row, and their optimizer.
class AdapterSet {
 public:
  // A is drawn by `generator`, on the CPU.
  AdapterSet(const Gpt& model, const PhasedTttConfig& config, std::int64_t rows,
             at::Generator& generator);

  const LoraAdapters& adapters() const { return adapters_; }
  // For a batch's documents: B is zero, the optimizer as new, and A as the batch before left it or,
  // with TTT_WARM_START_A=0, drawn anew.
  void restart(at::Generator& generator);
  // Another A, for batches to come: restart() makes the rest as new.
  void redraw(at::Generator& generator) { adapters_.draw_a(generator); }
  // Until restart() all but the last `rows` rows have no gradient: their documents have ended.
  void learn_in_last(std::int64_t rows);
  // One update, by the gradient of the adapters' parameters, also of rows that have none.
  void step() { optimizer_.step(); }

 private:
  const bool warm_start_;
  LoraAdapters adapters_;
  AdapterOptimizer optimizer_;
  std::int64_t learning_rows_ = adapters_.rows();
};

}  // namespace tg
