#pragma once
// Whether the byte table, the denominator of bits per byte, counts the bytes that the text has.
#include <cstdint>

#include "data/byte_count.h"
#include "data/token_source.h"

namespace tg {

struct ByteAudit {
  std::int64_t documents = 0, tokens = 0;
  std::int64_t counted = 0;  // by the table
  std::int64_t decoded = 0;  // of the text that the tokenizer decodes the documents to
};

// Of the documents that begin within the split's first predictions + 1 tokens: each begins with BOS
// and ends before the next. The split's last one, which may be cut, counts where it is the only
// one; without a BOS, the whole split is one document. Errors: those of reading.
ByteAudit audit_bytes(const TokenSource& tokens, std::int64_t predictions,
                      const Tokenizer& tokenizer, const ByteTable& table);

}  // namespace tg
