#pragma once
// Checks the denominator of bits per byte against the number of bytes in the decoded text.
#include <cstdint>

#include "data/text_bytes.h"
#include "data/token_source.h"

namespace tg {

struct ByteAudit {
  std::int64_t documents = 0, tokens = 0;
  std::int64_t counted = 0;         // bytes that val_bpb counts
  std::int64_t text = 0;            // bytes of the decoded documents
  std::int64_t differ = 0;          // number of documents whose two counts differ
  std::int64_t spelled_spaces = 0;  // spaces that SentencePiece's decoder left as U+2581
};

// Audits the documents that begin within the split's first predictions + 1 tokens: each begins
// after a control piece (BOS or EOS) and ends before the next one. The split's last document, which
// may be cut, counts only if it is the only one. Decodes texts with the tokenizer's library,
// independently of the code that counts. Throws errors of reading.
ByteAudit audit_bytes(const TokenSource& tokens, std::int64_t predictions,
                      const Tokenizer& tokenizer, const TextBytes& bytes);

}  // namespace tg
