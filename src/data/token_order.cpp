#include "data/token_order.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace tg {

StreamOrder::StreamOrder(const TokenSource& source, std::int64_t micro_batch_tokens,
                         std::int64_t micro_batches, int rank, int world_size)
    : TokenOrder(source),
      span_(micro_batch_tokens + 1),
      micro_batches_(micro_batches),
      rank_(rank),
      world_size_(world_size) {
  assert(micro_batch_tokens > 0 && micro_batches > 0 && rank >= 0 && rank < world_size);
}

std::optional<Place> StreamOrder::advance() {
  const std::int64_t mine = dealt_ + rank_;
  std::optional<Place> place;
  if (mine < micro_batches_) place = Place{step_begin_ + mine * span_, span_};
  dealt_ += world_size_;
  if (dealt_ >= micro_batches_) {
    step_begin_ += micro_batches_ * span_;
    dealt_ = 0;
  }
  return place;
}

LoaderState StreamOrder::state() const {
  return {.token_offset = step_begin_ + dealt_ * span_, .micro_batches = dealt_};
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

StridedOrder::StridedOrder(const TokenSource& source, std::int64_t sequences, std::int64_t seq_len,
                           int rank, int world_size, bool repeat_first)
    : TokenOrder(source),
      stride_(sequences * seq_len),
      rank_(rank),
      world_size_(world_size),
      repeat_first_(repeat_first) {
  assert(sequences > 0 && seq_len > 0 && rank >= 0 && rank < world_size);
  const std::int64_t needed = stride_ * world_size_ + 1;
  for (int shard = 0; shard < source.count(); ++shard) {
    REQUIRE(source.tokens(shard) >= needed, ExitCode::bad_data,
            "shard {} is too small for one read of every rank (expected at least {} tokens, found "
            "{}); lower the batch or merge small shards",
            source.path(shard), needed, source.tokens(shard));
  }
  offset_ = rank_ * stride_;
}

std::optional<Place> StridedOrder::advance() {
  const Place place{source_.start(shard_) + offset_, span_tokens()};
  if (rounds_++ == 0 && repeat_first_) return place;
  const std::int64_t round = stride_ * world_size_;
  offset_ += round;
  // The rest of the shard is counted from this rank's own position, as the reference implementation
  // does, so ranks may move to the next shard in different rounds.
  if (offset_ + round + 1 > source_.tokens(shard_)) {
    shard_ = (shard_ + 1) % source_.count();
    offset_ = rank_ * stride_;
  }
  return place;
}

void StridedOrder::restore(const LoaderState& state) {
  REQUIRE(state.micro_batches >= 0, ExitCode::config,
          "loader state micro_batches={}: expected the rounds read so far; resume with the state "
          "of a run in this order",
          state.micro_batches);
  rounds_ = state.micro_batches;
  std::int64_t reads = repeat_first_ && rounds_ > 0 ? rounds_ - 1 : rounds_;
  reads %= reads_of_a_pass();
  for (shard_ = 0; reads >= reads_of(shard_); ++shard_) reads -= reads_of(shard_);
  offset_ = (rank_ + reads * world_size_) * stride_;
}

std::int64_t StridedOrder::reads_of(int shard) const {
  // The first read always fits; another one while a whole round and one token remain.
  const std::int64_t from_rank = source_.tokens(shard) - 1 - rank_ * stride_;
  return std::max<std::int64_t>(1, from_rank / (stride_ * world_size_));
}

std::int64_t StridedOrder::reads_of_a_pass() const {
  std::int64_t reads = 0;
  for (int shard = 0; shard < source_.count(); ++shard) reads += reads_of(shard);
  return reads;
}

ListedOrder::ListedOrder(const TokenSource& source, std::vector<Place> places, std::int64_t count)
    : TokenOrder(source), places_(std::move(places)), count_(count) {
  assert(count == 0 || !places_.empty());
  for (const Place& place : places_) longest_ = std::max(longest_, place.tokens);
}

std::optional<Place> ListedOrder::advance() {
  if (next_ >= count_) return {};
  return places_[static_cast<std::size_t>(next_++ % std::ssize(places_))];
}

}  // namespace tg
