#include "data/documents_order.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tg {

DocumentsOrder::DocumentsOrder(const TokenSource& source, const DocumentRows& rows,
                               std::int64_t bos_id, int rank, int world_size)
    : RowsOrder(source, rows, bos_id, rank, world_size),
      first_documents_(static_cast<std::size_t>(source.count())) {
  // Throws if there is no round, since find_round() would search forever.
  const auto round = left_in_round(), needed = round * span_;
  std::int64_t most = 0;
  for (int shard = 0; shard < source_.count(); ++shard) {
    const auto first = first_document(shard);
    if (has(shard, first + needed)) return;
    most = std::max(most, tokens_up_to(source_, shard, first + needed) - first);
  }
  if (most == 0) fail_without_documents();
  fail(ExitCode::bad_data,
       "{}: no shard is long enough for LOADER_ORDER=documents (expected, from its first document "
       "on, {} tokens for {} rows of {}, found at most {}); lower TRAIN_BATCH_TOKENS or merge "
       "small shards",
       source_.pattern(), needed, round, rows_.tokens, most);
}

// Moves to the next position with the tokens of a round in one shard.
void DocumentsOrder::find_round() {
  if (dealt_ % rows_.of_round != 0) return;
  const auto tokens = left_in_round() * span_;
  auto next = next_;
  auto& shard = next.shard;
  next.begin = std::max(next.begin, first_document(shard));
  while (!has(shard, next.begin + tokens)) {
    const auto first = first_document(shard);
    if (next.begin == first && first_warning(shard)) {
      log_warn_once(
          "{} is passed over: from its first document on (BOS_ID={}) it has {} tokens, fewer than "
          "the {} that LOADER_ORDER=documents reads at a time",
          source_.path(shard), bos_id_, source_.tokens(shard) - first, tokens);
    }
    if (++shard == source_.count()) {
      next.pass_begin += source_.start(shard - 1) + source_.tokens(shard - 1);
      shard = 0;
    }
    next.begin = first_document(shard);
  }
  next_ = next;
}

std::int64_t DocumentsOrder::skip_rows(std::int64_t rows) {
  next_.begin += rows * span_;
  return next_.pass_begin + source_.start(next_.shard) + next_.begin;
}

std::int64_t DocumentsOrder::first_document(int shard) {
  auto& first = first_documents_[static_cast<std::size_t>(shard)];
  std::vector<TokenId> tokens;
  std::int64_t begin = 0;
  // Most shards have it within the first few thousand tokens.
  for (std::int64_t wanted = 1 << 12; !first; wanted = 1 << 20) {
    const auto end = tokens_up_to(source_, shard, begin + wanted);
    tokens.resize(static_cast<std::size_t>(end - begin));
    source_.read_at(source_.start(shard) + begin, tokens);
    const auto found = find_token(std::span<const TokenId>(tokens), static_cast<TokenId>(bos_id_));
    begin += static_cast<std::int64_t>(found);
    if (found < tokens.size() || tokens.empty()) first = begin;
  }
  return *first;
}

}  // namespace tg
