#pragma once
#include <nlohmann/json.hpp>

#include "text/bpe_vocabulary.h"

namespace tg {

// Returns the tokenizer.json of a byte-level BPE vocabulary for Hugging Face's tokenizers, with
// the vocabulary's pattern, GPT-2's where it has none. <|endoftext|> is a special token: that text
// is encoded as its id.
nlohmann::json hf_tokenizer(const BpeVocabulary& vocabulary);
// Returns the tokenizer_config.json, by which transformers' AutoTokenizer finds the tokenizer.
// `bos_id` begins a document; -1: no piece does.
nlohmann::json hf_tokenizer_config(const BpeVocabulary& vocabulary, int bos_id);

}  // namespace tg
