#include "eval/byte_audit.h"

#include <algorithm>
#include <span>
#include <vector>

namespace tg {

ByteAudit audit_bytes(const TokenSource& source, std::int64_t predictions,
                      const Tokenizer& tokenizer, const ByteTable& table) {
  ByteAudit audit;
  std::vector<std::uint16_t> document;  // so far, without its BOS
  const auto bos = tokenizer.bos_id();
  bool begun = bos < 0;
  const auto end_document = [&] {
    ++audit.documents;
    audit.tokens += std::ssize(document);
    audit.decoded += std::ssize(tokenizer.decode(document));
    // After BOS, as validation reads them: the first token's leading space counts nothing.
    if (bos >= 0) document.insert(document.begin(), static_cast<std::uint16_t>(bos));
    const std::span all(document);
    if (!all.empty())
      audit.counted += count_bytes(table, all.first(all.size() - 1), all.subspan(1));
    document.clear();
  };
  constexpr std::int64_t kChunk = 1 << 20;
  std::vector<std::uint16_t> chunk;
  for (std::int64_t at = 0; at < predictions + 1; at += kChunk) {
    chunk.resize(static_cast<std::size_t>(std::min(kChunk, predictions + 1 - at)));
    source.read_at(at, chunk);
    for (const auto id : chunk) {
      if (id != bos) {
        if (begun) document.push_back(id);
        continue;
      }
      if (begun) end_document();
      begun = true;
    }
  }
  if (bos < 0) end_document();
  return audit;
}

}  // namespace tg
