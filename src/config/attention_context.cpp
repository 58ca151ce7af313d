#include "config/attention_context.h"

#include <algorithm>

#include "config/derived.h"
#include "config/mode.h"

namespace tg {

std::int64_t attention_context(const Settings& settings, std::int64_t row) {
  const auto limit = segment_limit(settings);
  return mode::segments_attention(settings) && limit > 0 ? std::min(row, limit) : row;
}

namespace {

// The longest row that a run of the last record's script has made its table for before it trains.
std::int64_t longest_row_met(const Settings& settings, int world_size) {
  const auto& run = settings.run;
  auto longest = longest_training_row(settings, world_size);
  if (run.warmup_steps > 0)
    longest = std::max(longest, run.train_batch_tokens.largest() / world_size);
  if (run.val_loss_every == 0) return longest;
  const auto length = eval_length(settings);
  return std::max(longest,
                  run.val_batch_size / micro_batches(settings, world_size) / length * length);
}

}  // namespace

RopeStretch rope_stretch(const Settings& settings, int world_size) {
  switch (settings.model.rope_yarn) {
    case RopeYarn::off:
      return {.trained = 0};
    case RopeYarn::on:
      return {.trained = settings.run.train_seq_len.last(),
              .longest = settings.runtime.record_quirks
                             ? longest_row_met(settings, world_size)
                             : settings.run.train_batch_tokens.largest()};
    case RopeYarn::automatic:
      break;
  }
  return {};
}

}  // namespace tg
