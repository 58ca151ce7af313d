#pragma once
// Whether the denominator of bits per byte is the number of bytes that the text has.
#include <cstdint>

#include "data/text_bytes.h"
#include "data/token_source.h"

namespace tg {

struct ByteAudit {
  std::int64_t documents = 0, tokens = 0;
  std::int64_t counted = 0;         // bytes of val_bpb
  std::int64_t text = 0;            // bytes of the documents' texts
  std::int64_t differ = 0;          // documents of which both are not the same
  std::int64_t spelled_spaces = 0;  // spaces that SentencePiece's decoder leaves as U+2581
};

// Audits the documents that begin within the split's first predictions + 1 tokens. A document
// begins behind a control piece (BOS or EOS) and ends before the next one. The split's last
// document, which may be cut, counts only if it is the only one. Texts are what the tokenizer's
// library decodes, independently of how bytes are counted. Throws what reading throws.
ByteAudit audit_bytes(const TokenSource& tokens, std::int64_t predictions,
                      const Tokenizer& tokenizer, const TextBytes& bytes);

}  // namespace tg
