#pragma once
// Facts about the vocabulary, from VOCAB_SIZE, TOKENIZER_PATH and BOS_ID, that data and scores
// need.
#include <optional>
#include <string>

#include "config/settings.h"
#include "data/text_bytes.h"

namespace tg {

struct Vocabulary {
  // Exclusive upper bound of token ids: the tokenizer's pieces or, without a tokenizer, VOCAB_SIZE.
  int pieces = 0;
  std::string format{};              // the tokenizer's; empty without one
  std::string normalisation{};       // Tokenizer::normalisation()
  std::optional<TextBytes> bytes{};  // absent if there is neither a tokenizer nor a sidecar
  // Begins every document. With BOS_ID=auto: the tokenizer's BOS, else GPT-2's if the vocabulary
  // includes it, else 1.
  int bos_id = 1;
  bool has_bos = false;  // the tokenizer has a BOS
};

// Opens the tokenizer of TOKENIZER_PATH and CASEOPS_ENABLED. Throws what Tokenizer and
// require_caseops_as_made() throw.
Tokenizer make_tokenizer(const DataConfig& data, int vocab_size = 0);

// Throws what Tokenizer throws.
Vocabulary read_vocabulary(const DataConfig& data, int vocab_size);

// Replaces BOS_ID=auto by the number, which config.json and checkpoints then have, unless nothing
// reads it (mode::reads_no_bos_id); warns if it is a guess for a vocabulary that is not of GPT-2's
// size. Throws what make_tokenizer() throws.
void resolve_bos_id(Settings& settings);

}  // namespace tg
