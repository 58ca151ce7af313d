#include "data/documents_order.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "base/log.h"

namespace tg {

DocumentsOrder::DocumentsOrder(const TokenSource& source, const Rows& rows, std::int64_t bos_id,
                               int rank, int world_size)
    : TokenOrder(source),
      rows_(rows),
      bos_id_(bos_id),
      rank_(rank),
      world_size_(world_size),
      span_(rows.tokens + 1),
      shards_(static_cast<std::size_t>(source.count())) {
  assert(rows.tokens > 0 && rows.of_step > 0 && rank >= 0 && rank < world_size);
  assert(rows.of_round >= rows.of_step || rows.of_round == world_size);
  require_a_round();
}

// Else begin_round() would look for one for ever.
void DocumentsOrder::require_a_round() {
  const auto round = std::min(rows_.of_round, rows_.of_step), needed = round * span_;
  std::int64_t most = 0;
  for (int shard = 0; shard < source_.count(); ++shard) {
    const auto first = first_document(shard);
    if (has(shard, first + needed)) return;
    most = std::max(most, tokens_up_to(shard, first + needed) - first);
  }
  REQUIRE(most > 0, ExitCode::bad_data,
          "{}: no document begins (expected the token BOS_ID={} at each one's beginning, found it "
          "nowhere); set BOS_ID to the token that begins them, or LOADER_ORDER=stream",
          source_.pattern(), bos_id_);
  fail(ExitCode::bad_data,
       "{}: no shard is long enough for LOADER_ORDER=documents (expected, from its first document "
       "on, {} tokens for {} rows of {}, found at most {}); lower TRAIN_BATCH_TOKENS or merge "
       "small shards",
       source_.pattern(), needed, round, rows_.tokens, most);
}

std::optional<Place> DocumentsOrder::advance() {
  const auto left = rows_.of_step - dealt_, rows = std::min(world_size_, left);
  if (dealt_ % rows_.of_round == 0) begin_round(std::min(rows_.of_round, left) * span_);
  std::optional<Place> place;
  if (rank_ < rows) place = Place{source_.start(shard_) + begin_ + rank_ * span_, span_};
  begin_ += rows * span_;
  dealt_ = (dealt_ + rows) % rows_.of_step;
  return place;
}

// Moves to where so many tokens follow each other.
void DocumentsOrder::begin_round(std::int64_t tokens) {
  auto pass_begin = pass_begin_;
  auto shard = shard_;
  auto begin = std::max(begin_, first_document(shard));
  while (!has(shard, begin + tokens)) {
    if (begin == first_document(shard)) warn_once(shard, tokens);
    if (++shard == source_.count()) {
      pass_begin += source_.start(shard - 1) + source_.tokens(shard - 1);
      shard = 0;
    }
    begin = first_document(shard);
  }
  pass_begin_ = pass_begin;
  shard_ = shard;
  begin_ = begin;
}

void DocumentsOrder::warn_once(int shard, std::int64_t tokens) {
  auto& warned = shards_[static_cast<std::size_t>(shard)].warned;
  if (!warned) {
    log_warn_once(
        "{} is passed over: from its first document on (BOS_ID={}) it has {} tokens, fewer than "
        "the {} that LOADER_ORDER=documents reads at a time",
        source_.path(shard), bos_id_, source_.tokens(shard) - first_document(shard), tokens);
  }
  warned = true;
}

void DocumentsOrder::restore(const LoaderState& state) {
  const bool possible = state.token_offset >= 0 && state.micro_batches >= 0 &&
                        state.micro_batches < rows_.of_step &&
                        state.micro_batches % world_size_ == 0;
  REQUIRE(possible, ExitCode::config,
          "loader state token_offset={} micro_batches={} does not fit {} rows on {} ranks; resume "
          "between steps or with the settings of the first run",
          state.token_offset, state.micro_batches, rows_.of_step, world_size_);
  // All tokens of a pass, unless it has more than that.
  const auto all = source_.tokens_up_to(state.token_offset + 1);
  const auto position = all > state.token_offset ? state.token_offset : state.token_offset % all;
  pass_begin_ = state.token_offset - position;
  shard_ = shard_at(position);
  begin_ = position - source_.start(shard_);
  dealt_ = state.micro_batches;
}

void DocumentsOrder::resize(std::int64_t micro_batch_tokens) {
  assert(dealt_ == 0 && micro_batch_tokens > 0 && micro_batch_tokens <= rows_.tokens);
  span_ = micro_batch_tokens + 1;
}

// Where there is only one shard, its end may not be known yet.
std::int64_t DocumentsOrder::tokens_up_to(int shard, std::int64_t limit) const {
  return source_.count() == 1 ? source_.tokens_up_to(limit)
                              : std::min(limit, source_.tokens(shard));
}

std::int64_t DocumentsOrder::first_document(int shard) {
  auto& first = shards_[static_cast<std::size_t>(shard)].first_document;
  if (!first) first = find_document(shard);
  return *first;
}

std::int64_t DocumentsOrder::find_document(int shard) const {
  std::vector<std::uint16_t> tokens;
  std::int64_t begin = 0;
  // In most shards it is among the first thousands.
  for (std::int64_t wanted = 1 << 12;; wanted = 1 << 20) {
    const auto end = tokens_up_to(shard, begin + wanted);
    tokens.resize(static_cast<std::size_t>(end - begin));
    source_.read_at(source_.start(shard) + begin, tokens);
    const auto found = std::ranges::find(tokens, bos_id_);
    begin += found - tokens.begin();
    if (found != tokens.end() || tokens.empty()) return begin;
  }
}

}  // namespace tg
