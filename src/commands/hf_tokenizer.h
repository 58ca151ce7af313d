#pragma once
#include <nlohmann/json.hpp>

#include "text/bpe_vocabulary.h"

namespace tg {

// tokenizer.json, as Hugging Face's tokenizers reads a byte-level BPE vocabulary, with GPT-2's
// pre-tokenizer. Its <|endoftext|> is special there: a text of that name is its id.
nlohmann::json hf_tokenizer(const BpeVocabulary& vocabulary);
// tokenizer_config.json, by which transformers' AutoTokenizer finds it.
nlohmann::json hf_tokenizer_config(const BpeVocabulary& vocabulary);

}  // namespace tg
