#pragma once
// What data and scores need to know of VOCAB_SIZE, TOKENIZER_PATH and BOS_ID.
#include <optional>
#include <string>

#include "config/data_config.h"
#include "data/byte_count.h"

namespace tg {

struct Vocabulary {
  // The ids that tokens may have are below it: the tokenizer's pieces, or, without one, VOCAB_SIZE.
  int pieces = 0;
  std::string format{};              // the tokenizer's; empty without one
  std::string normalisation{};       // Tokenizer::normalisation()
  std::optional<ByteTable> bytes{};  // absent without a tokenizer
  // Begins every document. BOS_ID=auto: the tokenizer's, else GPT-2's where its ids fit, else 1.
  int bos_id = 1;
};

// Errors: those of Tokenizer.
Vocabulary read_vocabulary(const DataConfig& data, int vocab_size);

}  // namespace tg
