#include "data/validation.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/error.h"

namespace tg {

std::int64_t trimmed_predictions(const TokenSource& source, std::int64_t train_len,
                                 std::int64_t eval_len, std::int64_t val_tokens) {
  const std::int64_t longest = std::max(train_len, eval_len);
  const auto limit = val_tokens > 0 ? val_tokens + 1 : std::numeric_limits<std::int64_t>::max();
  const std::int64_t available = source.tokens_up_to(limit);
  const std::int64_t predictions = std::max<std::int64_t>(available - 1, 0) / longest * longest;
  REQUIRE(predictions > 0, ExitCode::bad_data,
          "the validation split {} is too short (expected at least {} tokens, found {}); lower "
          "TRAIN_SEQ_LEN and EVAL_SEQ_LEN or raise VAL_TOKENS",
          source.pattern(), longest + 1, available);
  return predictions;
}

ValidationPlan plan_stream(std::int64_t predictions, std::int64_t seq_len, std::int64_t at_once,
                           int rank, int world_size) {
  assert(at_once > 0 && rank >= 0 && rank < world_size);
  const std::int64_t sequences = predictions / seq_len;
  const std::int64_t end = sequences * (rank + 1) / world_size;
  ValidationPlan plan;
  for (std::int64_t first = sequences * rank / world_size; first < end; first += at_once) {
    const std::int64_t count = std::min(at_once, end - first);
    plan.places.push_back({first * seq_len, count * seq_len + 1});
  }
  plan.count = std::ssize(plan.places);
  return plan;
}

ValidationPlan plan_rows(std::int64_t predictions, std::int64_t seq_len, std::int64_t at_once,
                         int rank, int world_size, bool quirks) {
  const std::int64_t row = at_once * seq_len;
  ValidationPlan plan;
  if (quirks) {
    plan = plan_stream(predictions, seq_len, at_once, rank, world_size);
    std::erase_if(plan.places, [&](const TokenSpan& place) { return place.tokens != row + 1; });
  } else {
    plan = plan_stream((predictions + row - 1) / row * row, row, 1, rank, world_size);
    for (auto& place : plan.places)
      place.tokens = std::min(place.tokens, predictions - place.begin + 1);
  }
  plan.count = std::ssize(plan.places);
  return plan;
}

ValidationPlan plan_strided(const TokenSource& source, std::int64_t batches, std::int64_t sequences,
                            std::int64_t seq_len, std::int64_t at_once, int rank, int world_size) {
  assert(at_once > 0);
  StridedOrder order(source, sequences * seq_len, rank, world_size, /*repeat_first=*/false);
  const std::int64_t parts = (sequences + at_once - 1) / at_once;
  ValidationPlan plan{.places = {}, .count = batches * parts, .places_in_batch = parts};
  // VAL_TOKENS may be any number of passes; the list holds one, which ListedOrder repeats.
  const std::int64_t listed = std::min(batches, order.reads_per_pass());
  for (std::int64_t batch = 0; batch < listed; ++batch) {
    const std::int64_t begin = order.advance()->spans.front().begin;
    for (std::int64_t first = 0; first < sequences; first += at_once) {
      const std::int64_t count = std::min(at_once, sequences - first);
      plan.places.push_back({begin + first * seq_len, count * seq_len + 1});
    }
  }
  return plan;
}

}  // namespace tg
