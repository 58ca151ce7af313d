#pragma once
// What data and scores need to know of VOCAB_SIZE, TOKENIZER_PATH and BOS_ID.
#include <optional>
#include <string>

#include "config/settings.h"
#include "data/text_bytes.h"

namespace tg {

struct Vocabulary {
  // The ids that tokens may have are below it: the tokenizer's pieces, or, without one, VOCAB_SIZE.
  int pieces = 0;
  std::string format{};              // the tokenizer's; empty without one
  std::string normalisation{};       // Tokenizer::normalisation()
  std::optional<TextBytes> bytes{};  // absent without a tokenizer and a sidecar
  // Begins every document. BOS_ID=auto: the tokenizer's, else GPT-2's where its ids fit, else 1.
  int bos_id = 1;
  bool has_bos = false;  // a tokenizer says so
};

// The tokenizer of TOKENIZER_PATH and CASEOPS_ENABLED. vocab_size, errors: as Tokenizer's; those of
// require_caseops_as_made().
Tokenizer make_tokenizer(const DataConfig& data, int vocab_size = 0);

// Errors: those of Tokenizer.
Vocabulary read_vocabulary(const DataConfig& data, int vocab_size);

// Makes BOS_ID=auto that number unless nothing reads it (mode::reads_no_bos_id), as config.json and
// checkpoints have it; warns where it is a guess of a vocabulary that is not GPT-2's size. Errors:
// those of make_tokenizer().
void resolve_bos_id(Settings& settings);

}  // namespace tg
