#include "eval/byte_audit.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace tg {

namespace {

// `document`: with its BOS, if the tokenizer has one, as validation reads it: after BOS the first
// token's leading space counts nothing.
void add(ByteAudit& audit, const std::vector<std::uint16_t>& document, const Tokenizer& tokenizer,
         const ByteTable& table) {
  const std::span all(document);
  ++audit.documents;
  audit.tokens += std::ssize(all) - (tokenizer.bos_id() >= 0 ? 1 : 0);
  audit.decoded += std::ssize(tokenizer.decode(all));
  audit.counted += count_bytes(table, all);
}

}  // namespace

ByteAudit audit_bytes(const TokenSource& source, std::int64_t predictions,
                      const Tokenizer& tokenizer, const ByteTable& table) {
  ByteAudit audit;
  std::vector<std::uint16_t> document, chunk;
  const auto bos = tokenizer.bos_id();
  const auto all = source.tokens_up_to(std::numeric_limits<std::int64_t>::max());
  constexpr std::int64_t kChunk = 1 << 20;
  for (std::int64_t begin = 0; begin < all; begin += kChunk) {
    chunk.resize(static_cast<std::size_t>(std::min(kChunk, all - begin)));
    source.read_at(begin, chunk);
    for (std::int64_t i = 0; i < std::ssize(chunk); ++i) {
      const auto id = chunk[static_cast<std::size_t>(i)];
      if (id == bos) {
        if (!document.empty()) add(audit, document, tokenizer, table);
        document.clear();
        if (begin + i > predictions) return audit;
      }
      // What precedes the first BOS is the end of a document.
      if (id == bos || bos < 0 || !document.empty()) document.push_back(id);
    }
  }
  if (audit.documents == 0 && !document.empty()) add(audit, document, tokenizer, table);
  return audit;
}

}  // namespace tg
