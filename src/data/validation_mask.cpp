#include "data/validation_mask.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/vocabulary.h"
#include "text/byte_level_bpe.h"
#include "text/hex_vocabulary.h"
#include "text/noncanonical_pairs.h"
#include "text/word_boundary.h"

namespace tg {

namespace {

constexpr std::int64_t kMaxVocab = 1 << 17;  // a table of 2 GiB

std::vector<RankedPiece> pieces_of_tokenizer(const Settings& settings) {
  const auto& path = settings.data.tokenizer_path;
  constexpr auto kInstead =
      "set VALIDATION_MASK_VOCABULARY to its pieces, bytes in hexadecimal and ids, or "
      "VALIDATION_MASK=0";
  REQUIRE(!path.empty(), ExitCode::config,
          "VALIDATION_MASK=1 needs the vocabulary, but TOKENIZER_PATH is empty; set one of "
          "TOKENIZER_PATH and VALIDATION_MASK_VOCABULARY");
  const auto tokenizer = make_tokenizer(settings.data, static_cast<int>(settings.model.vocab_size));
  const auto* const bpe = dynamic_cast<const ByteLevelBpe*>(&tokenizer.model());
  REQUIRE(
      bpe != nullptr, ExitCode::config,
      "VALIDATION_MASK=1: tokenizer {} has no ranks of merges (expected a byte-level BPE, found "
      "{}); {}",
      path, tokenizer.format(), kInstead);
  REQUIRE(
      bpe->has_gpt2_words(), ExitCode::config,
      "VALIDATION_MASK=1: tokenizer {} splits text into words by a pattern of its own (expected "
      "GPT-2's, whose words the mask knows); set VALIDATION_MASK=0",
      path);
  return bpe->ranked_pieces();
}

// The mask knows a contraction by its piece alone.
void warn_of_contractions(const std::vector<RankedPiece>& pieces) {
  for (const auto contraction : kContractions) {
    if (std::ranges::find(pieces, contraction, &RankedPiece::bytes) != pieces.end()) continue;
    return log_warn_once(
        "VALIDATION_MASK=1: {} is no piece of the vocabulary (expected all contractions to be, as "
        "in GPT-2's): behind it the mask names tokens that the tokenizer writes, each of which "
        "costs 60 nats; compare val_loss_unmasked",
        contraction);
  }
}

}  // namespace

std::vector<std::uint8_t> validation_mask(const Settings& settings) {
  const auto vocab_size = settings.model.vocab_size;
  REQUIRE(vocab_size <= kMaxVocab, ExitCode::config,
          "VALIDATION_MASK=1 takes a bit for each pair of tokens (expected VOCAB_SIZE up to {}, "
          "found {}); set VALIDATION_MASK=0",
          kMaxVocab, vocab_size);
  const auto& path = settings.run.validation_mask_vocabulary;
  const auto pieces =
      path.empty() ? pieces_of_tokenizer(settings) : read_hex_vocabulary(path, vocab_size);
  warn_of_contractions(pieces);
  return noncanonical_pairs(pieces, vocab_size);
}

}  // namespace tg
