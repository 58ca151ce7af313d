#include "config/attention_context.h"

#include <algorithm>

#include "config/derived.h"
#include "config/mode.h"

namespace tg {

std::int64_t attention_context(const Settings& settings, std::int64_t row) {
  const auto limit = segment_limit(settings);
  return mode::segments_attention(settings) && limit > 0 ? std::min(row, limit) : row;
}

std::int64_t adaptation_row(const Settings& settings) {
  const auto given = settings.phased_ttt.ttt_eval_seq_len;
  if (given > 0) return given;
  const auto& run = settings.run;
  return attention_context(settings, mode::batches_are_rows(settings)
                                         ? run.train_batch_tokens.last() / kMicroBatches
                                         : run.train_seq_len.last());
}

namespace {

// Returns the longest row for which the last record's script builds its RoPE table before training.
std::int64_t longest_row_met(const Settings& settings, int world_size) {
  const auto& run = settings.run;
  auto longest = longest_training_row(settings, world_size);
  if (run.warmup_steps > 0)
    longest = std::max(longest, run.train_batch_tokens.largest() / world_size);
  if (run.val_loss_every == 0) return longest;
  const auto length = eval_length(settings);
  return std::max(longest, run.val_batch_size / kMicroBatches / length * length);
}

std::int64_t rope_longest(const Settings& settings, int world_size) {
  const auto& given = settings.model.rope_longest;
  if (!given.automatic) return given.count;
  const bool quirks = settings.runtime.record_quirks;
  if (settings.model.rope_yarn == RopeYarn::on)
    return quirks ? longest_row_met(settings, world_size)
                  : settings.run.train_batch_tokens.largest();
  return quirks ? 0 : attention_context(settings, longest_training_row(settings, world_size));
}

}  // namespace

RopeStretch rope_stretch(const Settings& settings, int world_size) {
  const auto yarn = settings.model.rope_yarn;
  if (yarn == RopeYarn::off) return {.trained = 0};
  RopeStretch stretch{.longest = rope_longest(settings, world_size)};
  if (yarn == RopeYarn::on) {
    stretch.trained = settings.run.train_seq_len.last();
    stretch.by_row = true;
  }
  return stretch;
}

void resolve_rope_longest(Settings& settings, int world_size) {
  const auto longest = rope_stretch(settings, world_size).longest;
  if (longest > 0) settings.model.rope_longest = {.count = longest};
}

}  // namespace tg
