#include "data/token_order.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace tg {

void TokenOrder::reshape(const BatchShape& /*shape*/) {
  assert(!"listed places have fixed sizes");
}

std::int64_t Place::tokens() const {
  std::int64_t sum = 0;
  for (const auto& span : spans) sum += span.tokens;
  return sum;
}

StreamOrder::StreamOrder(const TokenSource& source, std::int64_t micro_batch_tokens,
                         std::int64_t micro_batches, int rank, int world_size)
    : TokenOrder(source),
      longest_(micro_batch_tokens + 1),
      span_(longest_),
      micro_batches_(micro_batches),
      rank_(rank),
      world_size_(world_size) {
  assert(micro_batch_tokens > 0 && micro_batches > 0 && rank >= 0 && rank < world_size);
}

std::optional<Place> StreamOrder::advance() {
  const std::int64_t index = dealt_ + rank_;
  std::optional<Place> place;
  if (index < micro_batches_) place = Place{{{step_begin_ + index * span_, span_}}};
  dealt_ += world_size_;
  if (dealt_ >= micro_batches_) {
    step_begin_ += micro_batches_ * span_;
    dealt_ = 0;
  }
  return place;
}

void StreamOrder::restore(const LoaderState& state) {
  const std::int64_t begin = state.token_offset - state.micro_batches * span_;
  const bool possible = state.micro_batches >= 0 && state.micro_batches < micro_batches_ &&
                        state.micro_batches % world_size_ == 0 && begin >= 0;
  REQUIRE(
      possible, ExitCode::config,
      "loader state token_offset={} micro_batches={} does not fit {} micro-batches of {} tokens "
      "on {} ranks; resume between steps or with the settings of the first run",
      state.token_offset, state.micro_batches, micro_batches_, span_, world_size_);
  step_begin_ = begin;
  dealt_ = state.micro_batches;
}

void StreamOrder::reshape(const BatchShape& shape) {
  assert(dealt_ == 0 && shape.tokens > 0 && shape.tokens < longest_);
  span_ = shape.tokens + 1;
}

StridedOrder::StridedOrder(const TokenSource& source, std::int64_t micro_batch_tokens, int rank,
                           int world_size, bool repeat_first)
    : TokenOrder(source),
      longest_(micro_batch_tokens + 1),
      stride_(micro_batch_tokens),
      rank_(rank),
      world_size_(world_size),
      repeat_first_(repeat_first) {
  assert(micro_batch_tokens > 0 && rank >= 0 && rank < world_size);
  const std::int64_t needed = stride_ * world_size_ + 1;
  for (int shard = 0; shard < source.count(); ++shard) {
    REQUIRE(source.tokens(shard) >= needed, ExitCode::bad_data,
            "shard {} is too small for one read of every rank (expected at least {} tokens, found "
            "{}); lower the batch or merge small shards",
            source.path(shard), needed, source.tokens(shard));
  }
}

std::optional<Place> StridedOrder::advance() {
  Place place{{{source_.start(next_.shard) + next_.begin + rank_ * stride_, stride_ + 1}}};
  if (rounds_++ == 0 && repeats()) return place;
  next_.begin += stride_ * world_size_;
  // The rest of the shard is counted from this rank's own position, as the reference implementation
  // does, so ranks may move to the next shard in different rounds.
  if (reads_from(next_, rank_) == 0) next_ = {(next_.shard + 1) % source_.count(), 0};
  return place;
}

void StridedOrder::restore(const LoaderState& state) {
  REQUIRE(state.micro_batches >= 0 && state.token_offset >= 0, ExitCode::config,
          "loader state token_offset={} micro_batches={}: expected where the order began, and the "
          "rounds read since; resume with the state of a run in this order",
          state.token_offset, state.micro_batches);
  base_ = state.token_offset;
  rounds_ = state.micro_batches;
  next_ = after(reads(), rank_);
}

void StridedOrder::reshape(const BatchShape& shape) {
  assert(shape.tokens > 0 && shape.tokens < longest_);
  const auto [shard, begin] = after(reads(), /*rank=*/0);
  base_ = source_.start(shard) + begin;
  rounds_ = 0;
  stride_ = shape.tokens;
  next_ = after(0, rank_);
}

// Returns base_ as a position in its shard, or in the next shard if rank 0 has no whole round left.
StridedOrder::Round StridedOrder::base() const {
  const int shard = shard_at(source_, base_);
  const Round found{shard, base_ - source_.start(shard)};
  return reads_from(found, /*rank=*/0) > 0 ? found : Round{(shard + 1) % source_.count(), 0};
}

StridedOrder::Round StridedOrder::after(std::int64_t reads, std::int64_t rank) const {
  const auto per_pass = reads_per_pass(rank);
  auto round = base();
  for (auto here = reads_from(round, rank); reads >= here; here = reads_from(round, rank)) {
    reads = (reads - here) % per_pass;
    round = {(round.shard + 1) % source_.count(), 0};
  }
  round.begin += reads * world_size_ * stride_;
  return round;
}

std::int64_t StridedOrder::reads_per_pass(std::int64_t rank) const {
  std::int64_t reads = 0;
  for (int shard = 0; shard < source_.count(); ++shard) reads += reads_from({shard, 0}, rank);
  return reads;
}

std::int64_t StridedOrder::reads_from(const Round& round, std::int64_t rank) const {
  // The first read of a shard always fits; another read fits while a whole round and one token
  // remain.
  const std::int64_t rest = source_.tokens(round.shard) - 1 - round.begin - rank * stride_;
  const auto whole = rest / (stride_ * world_size_);
  return round.begin == 0 ? std::max<std::int64_t>(1, whole) : std::max<std::int64_t>(0, whole);
}

ListedOrder::ListedOrder(const TokenSource& source, std::vector<TokenSpan> places,
                         std::int64_t count)
    : TokenOrder(source), places_(std::move(places)), count_(count) {
  assert(count == 0 || !places_.empty());
  for (const auto& place : places_) longest_ = std::max(longest_, place.tokens);
}

std::optional<Place> ListedOrder::advance() {
  if (next_ >= count_) return {};
  return Place{{places_[static_cast<std::size_t>(next_++ % std::ssize(places_))]}};
}

}  // namespace tg
