#include "data/token_order.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace tg {

bool TokenOrder::next(std::span<std::uint16_t> out) {
  assert(std::ssize(out) == span_tokens());
  const auto begin = advance();
  if (begin) read(*begin, out);
  return begin.has_value();
}

StreamOrder::StreamOrder(const ShardSet& shards, std::int64_t micro_batch_tokens,
                         std::int64_t micro_batches, int rank, int world_size)
    : TokenOrder(shards),
      span_(micro_batch_tokens + 1),
      micro_batches_(micro_batches),
      rank_(rank),
      world_size_(world_size) {
  assert(micro_batch_tokens > 0 && micro_batches > 0 && rank >= 0 && rank < world_size);
}

std::optional<std::int64_t> StreamOrder::advance() {
  const std::int64_t mine = dealt_ + rank_;
  std::optional<std::int64_t> begin;
  if (mine < micro_batches_) begin = step_begin_ + mine * span_;
  dealt_ += world_size_;
  if (dealt_ >= micro_batches_) {
    step_begin_ += micro_batches_ * span_;
    dealt_ = 0;
  }
  return begin;
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

StridedOrder::StridedOrder(const ShardSet& shards, std::int64_t sequences, std::int64_t seq_len,
                           int rank, int world_size, bool repeat_first)
    : TokenOrder(shards),
      stride_(sequences * seq_len),
      rank_(rank),
      world_size_(world_size),
      repeat_first_(repeat_first) {
  assert(sequences > 0 && seq_len > 0 && rank >= 0 && rank < world_size);
  const std::int64_t needed = stride_ * world_size_ + 1;
  for (int shard = 0; shard < shards.count(); ++shard) {
    REQUIRE(shards.tokens(shard) >= needed, ExitCode::bad_data,
            "shard {} is too small for one read of every rank (expected at least {} tokens, found "
            "{}); lower the batch or merge small shards",
            shards.path(shard), needed, shards.tokens(shard));
  }
  state_.offset = rank_ * stride_;
}

std::optional<std::int64_t> StridedOrder::advance() {
  const std::int64_t begin = shards_.start(static_cast<int>(state_.shard)) + state_.offset;
  const bool repeat = repeat_first_ && state_.micro_batches == 0;
  ++state_.micro_batches;
  if (repeat) return begin;
  const std::int64_t round = stride_ * world_size_;
  state_.offset += round;
  // What remains counts from this rank's own position, so ranks may leave a shard in different
  // rounds.
  if (state_.offset + round + 1 > shards_.tokens(static_cast<int>(state_.shard))) {
    state_.shard = (state_.shard + 1) % shards_.count();
    state_.offset = rank_ * stride_;
  }
  return begin;
}

void StridedOrder::restore(const LoaderState& state) {
  const bool possible = state.shard >= 0 && state.shard < shards_.count() && state.offset >= 0 &&
                        state.micro_batches >= 0 &&
                        state.offset + stride_ + 1 <= shards_.tokens(static_cast<int>(state.shard));
  REQUIRE(
      possible, ExitCode::config,
      "loader state shard={} offset={} lies outside the {} shards of {}; resume with the shards "
      "and the batch of the first run",
      state.shard, state.offset, shards_.count(), shards_.pattern());
  state_ = state;
}

std::int64_t StridedOrder::reads_of(int shard) const {
  // The first read is always possible; another one while a whole round and one token remain.
  const std::int64_t from_rank = shards_.tokens(shard) - 1 - rank_ * stride_;
  return std::max<std::int64_t>(1, from_rank / (stride_ * world_size_));
}

LoaderState StridedOrder::state_after(std::int64_t rounds) const {
  std::int64_t reads = repeat_first_ && rounds > 0 ? rounds - 1 : rounds;
  std::int64_t pass = 0;
  for (int shard = 0; shard < shards_.count(); ++shard) pass += reads_of(shard);
  reads %= pass;
  int shard = 0;
  while (reads >= reads_of(shard)) reads -= reads_of(shard++);
  return {.token_offset = 0,
          .micro_batches = rounds,
          .shard = shard,
          .offset = (rank_ + reads * world_size_) * stride_};
}

}  // namespace tg
