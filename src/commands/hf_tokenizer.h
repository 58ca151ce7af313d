#pragma once
#include <nlohmann/json.hpp>

#include "text/bpe_vocabulary.h"

namespace tg {

// Returns the tokenizer.json of a byte-level BPE vocabulary for Hugging Face's tokenizers, with
// GPT-2's pre-tokenizer. <|endoftext|> is a special token: that text is encoded as its id.
nlohmann::json hf_tokenizer(const BpeVocabulary& vocabulary);
// Returns the tokenizer_config.json, by which transformers' AutoTokenizer finds the tokenizer.
nlohmann::json hf_tokenizer_config(const BpeVocabulary& vocabulary);

}  // namespace tg
