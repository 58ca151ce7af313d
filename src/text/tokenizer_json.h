#pragma once
// tokenizer.json, the file of Hugging Face's tokenizers: its byte-level BPE.
#include <string>
#include <string_view>

#include "text/bpe_vocabulary.h"

namespace tg {

// Returns whether the file is JSON, which no other tokenizer file is.
bool is_tokenizer_json(std::string_view bytes);

// Parses a byte-level BPE: the model's vocab and merges with ignore_merges; added tokens, which are
// special pieces whose names are ordinary text here; pre_tokenizers ByteLevel, Split by a pattern
// or a string (isolated), Digits, and a Sequence of them that ends with ByteLevel; the normalizer
// NFC. Throws Error(bad_data), naming the part, for another model (WordPiece, Unigram, WordLevel),
// another normalizer, another pre-tokenizer, a prefix space, or a damaged file; and what
// require_id() throws.
BpeVocabulary read_tokenizer_json(std::string_view bytes, const std::string& path);

}  // namespace tg
