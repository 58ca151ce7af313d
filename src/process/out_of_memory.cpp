#include "process/out_of_memory.h"

#include "config/derived.h"
#include "config/mode.h"
#include "recipes/recipe.h"

namespace tg {

namespace {

// Lists what to try, the most useful first.
std::string remedies(const Settings& settings) {
  const bool one_row = mode::batches_are_rows(settings);  // cannot be split into micro-batches
  const bool measured = measures_memory(settings) && !one_row;
  std::string text;
  const auto add = [&](std::string_view remedy) {
    text += fmt::format("{}{}", text.empty() ? "set " : " or ", remedy);
  };
  if (joined_micro_batches(settings, /*world_size=*/1,
                           micro_batch_tokens(settings, /*world_size=*/1)) > 1)
    add("PASS_TOKENS=0 (a pass for each micro-batch)");
  if (!measured && !one_row) add("GRAD_ACCUM_STEPS=auto (splits micro-batches to fit)");
  if (settings.runtime.activation_recompute != ActivationRecompute::block)
    add("ACTIVATION_RECOMPUTE=block (recomputes activations)");
  if (!text.empty()) text += ", which leaves the losses unchanged; or ";
  return text +
         (measured ? "lower TRAIN_SEQ_LEN"
                   : "lower TRAIN_BATCH_TOKENS or raise GRAD_ACCUM_STEPS, lower "
                     "VAL_BATCH_SIZE") +
         ", or choose a smaller MODEL_DIM";
}

}  // namespace

Error explain_out_of_memory(const Settings& settings, std::string_view what) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const auto tokens = micro_batch_tokens(settings, /*world_size=*/1);
  const auto length = longest_training_row(settings, /*world_size=*/1);
  // Meta tensors: counting the elements allocates nothing.
  const auto parameters =
      make_parameters(model_spec(settings), settings, at::kFloat, at::kMeta).element_count();
  // Lower bound: 2 bytes an element.
  const double logits = 2.0 * static_cast<double>(length * settings.model.vocab_size);
  return {ExitCode::memory,
          fmt::format("out of memory with {} parameters and micro-batches of {} tokens ({} "
                      "sequences of {}, whose logits take {:.0f} MiB each): {}; {}",
                      parameters, tokens, tokens / length, length, logits / kMiB, what,
                      remedies(settings))};
}

}  // namespace tg
