#include "train/out_of_memory.h"

#include "config/derived.h"
#include "model/parameters.h"

namespace tg {

Error explain_out_of_memory(const Settings& settings, std::string_view what) {
  const auto tokens = micro_batch_tokens(settings, /*world_size=*/1);
  // Shapes alone: nothing is allocated to count them.
  const auto parameters = make_parameters(settings.model, at::kFloat, at::kMeta).element_count();
  return {
      ExitCode::memory,
      fmt::format(
          "out of memory with {} parameters and micro-batches of {} tokens ({} sequences of {}): "
          "{}; lower TRAIN_BATCH_TOKENS or raise GRAD_ACCUM_STEPS, lower VAL_BATCH_SIZE, or choose "
          "a smaller MODEL_DIM",
          parameters, tokens, tokens / settings.run.train_seq_len, settings.run.train_seq_len,
          what)};
}

}  // namespace tg
