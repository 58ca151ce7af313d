#include "data/document_scan.h"

#include <algorithm>
#include <optional>

namespace tg {

DocumentScan::DocumentScan(const TokenSource& source, std::int64_t bos_id, std::int64_t position,
                           std::int64_t ahead)
    : source_(source),
      bos_id_(static_cast<TokenId>(bos_id)),
      ahead_(ahead),
      // Small enough to stay in a core's cache, and to stop quickly.
      block_(std::clamp<std::int64_t>(ahead / 16, 1 << 12, 1 << 18)),
      taken_(position),
      thread_([this, position] {
        if (source_.id_bytes() == sizeof(NarrowId)) return scan<NarrowId>(position);
        scan<TokenId>(position);
      }) {}

DocumentScan::~DocumentScan() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_one();
  thread_.join();
}

DocumentPlace DocumentScan::next() {
  std::unique_lock lock(mutex_);
  any_.wait(lock, [&] { return !found_.empty() || error_; });
  if (found_.empty()) std::rethrow_exception(error_);
  const auto document = found_.front();
  found_.pop_front();
  taken_ = document.begin + document.tokens;
  if (has_room()) room_.notify_one();
  return document;
}

template <class Id>
void DocumentScan::scan(std::int64_t position) {
  try {
    std::vector<Id> tokens;
    auto from = position_in(source_, position);
    while (scan_shard(from, tokens)) {
      from.begin = 0;
      if (++from.shard < source_.count()) continue;
      const int last = source_.count() - 1;
      from.pass_begin += source_.start(last) + source_.tokens(last);
      from.shard = 0;
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    any_.notify_one();
  }
}

// Returns false when the scan should stop.
template <class Id>
bool DocumentScan::scan_shard(const StreamPosition& from, std::vector<Id>& tokens) {
  const auto stored = source_.start(from.shard), shard_begin = from.pass_begin + stored;
  std::optional<DocumentPlace> open;
  std::vector<DocumentPlace> found;
  const auto close = [&](std::int64_t end) {
    if (!open) return;
    open->tokens = end - open->begin;
    found.push_back(*open);
  };
  // Documents before `from` are skipped, so the first one found there need not be the shard's
  // first.
  bool first = from.begin == 0;
  for (auto begin = from.begin;;) {
    const auto end = tokens_up_to(source_, from.shard, begin + block_);
    const bool ended = end == begin;
    tokens.resize(static_cast<std::size_t>(end - begin));
    if (!ended) source_.read_at(stored + begin, tokens);
    for (std::size_t at = 0;; ++at) {
      at += find_token(std::span<const Id>(tokens).subspan(at), bos_id_);
      if (at == tokens.size()) break;
      const auto position = shard_begin + begin + static_cast<std::int64_t>(at);
      close(position);
      open = DocumentPlace{.begin = position, .tokens = 0, .shard = from.shard, .first = first};
      first = false;
    }
    begin = end;
    if (ended && first)
      open = DocumentPlace{
          .begin = shard_begin + end, .tokens = 0, .shard = from.shard, .first = true};
    if (ended) close(shard_begin + end);
    if (!publish(found, shard_begin + end)) return false;
    if (ended) return true;
  }
}

bool DocumentScan::publish(std::vector<DocumentPlace>& found, std::int64_t scanned) {
  std::unique_lock lock(mutex_);
  found_.insert(found_.end(), found.begin(), found.end());
  found.clear();
  scanned_ = scanned;
  any_.notify_one();
  room_.wait(lock, [&] { return stopping_ || has_room(); });
  return !stopping_;
}

}  // namespace tg
