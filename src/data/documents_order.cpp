#include "data/documents_order.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "base/log.h"
#include "data/find_token.h"

namespace tg {

DocumentsOrder::DocumentsOrder(const TokenSource& source, const DocumentRows& rows,
                               std::int64_t bos_id, int rank, int world_size)
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

// Throws if there is no round, since begin_round() would search forever.
void DocumentsOrder::require_a_round() {
  const auto round = std::min(rows_.of_round, rows_.of_step), needed = round * span_;
  std::int64_t most = 0;
  for (int shard = 0; shard < source_.count(); ++shard) {
    const auto first = first_document(shard);
    if (has(shard, first + needed)) return;
    most = std::max(most, tokens_up_to(source_, shard, first + needed) - first);
  }
  if (most == 0) fail_without_documents(source_, bos_id_);
  fail(ExitCode::bad_data,
       "{}: no shard is long enough for LOADER_ORDER=documents (expected, from its first document "
       "on, {} tokens for {} rows of {}, found at most {}); lower TRAIN_BATCH_TOKENS or merge "
       "small shards",
       source_.pattern(), needed, round, rows_.tokens, most);
}

std::optional<Place> DocumentsOrder::advance() {
  const auto left = rows_.of_step - dealt_, rows = std::min(world_size_, left);
  if (dealt_ % rows_.of_round == 0) begin_round(rows_.left_in_round(dealt_) * span_);
  std::optional<Place> place;
  if (rank_ < rows) place = Place{{{source_.start(shard_) + begin_ + rank_ * span_, span_}}};
  begin_ += rows * span_;
  dealt_ = (dealt_ + rows) % rows_.of_step;
  return place;
}

// Moves to the next position with that many tokens in one shard.
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
  rows_.require_possible(state, world_size_);
  const auto position = position_in(source_, state.token_offset);
  pass_begin_ = position.pass_begin;
  shard_ = position.shard;
  begin_ = position.begin;
  dealt_ = state.micro_batches;
}

void DocumentsOrder::reshape(const BatchShape& shape) {
  assert(dealt_ == 0 && shape.tokens > 0 && shape.tokens <= rows_.tokens);
  span_ = shape.tokens + 1;
}

std::int64_t DocumentsOrder::first_document(int shard) {
  auto& first = shards_[static_cast<std::size_t>(shard)].first_document;
  if (!first) first = find_document(shard);
  return *first;
}

std::int64_t DocumentsOrder::find_document(int shard) const {
  std::vector<TokenId> tokens;
  std::int64_t begin = 0;
  // Most shards have it within the first few thousand tokens.
  for (std::int64_t wanted = 1 << 12;; wanted = 1 << 20) {
    const auto end = tokens_up_to(source_, shard, begin + wanted);
    tokens.resize(static_cast<std::size_t>(end - begin));
    source_.read_at(source_.start(shard) + begin, tokens);
    const auto found = find_token(std::span<const TokenId>(tokens), static_cast<TokenId>(bos_id_));
    begin += static_cast<std::int64_t>(found);
    if (found < tokens.size() || tokens.empty()) return begin;
  }
}

}  // namespace tg
