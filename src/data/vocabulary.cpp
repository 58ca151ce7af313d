#include "data/vocabulary.h"

#include "base/log.h"
#include "config/mode.h"

namespace tg {
namespace {

static_assert(kMaxPieces == most_ids);

constexpr int gpt2_bos = 50256, usual_bos = 1;  // 1 is usual in SentencePiece models
constexpr int max_gpt2_size = 51'200;           // 50,257 ids padded to a multiple of 1,024

void warn_of_guess(int bos_id, int vocab_size, const DataConfig& data) {
  const bool is_gpt2 = vocab_size > gpt2_bos && vocab_size <= max_gpt2_size;
  if (is_gpt2 || data.data_path == synthetic_documents) return;
  log_warn_once(
      "BOS_ID=auto: {} (VOCAB_SIZE={}), so {} is a guess; set BOS_ID to the token that begins "
      "documents",
      data.tokenizer_path.empty() ? "there is no tokenizer" : "the tokenizer has no BOS",
      vocab_size, bos_id);
}

}  // namespace

Tokenizer make_tokenizer(const DataConfig& data, int vocab_size) {
  Tokenizer tokenizer(data.tokenizer_path, vocab_size, data.caseops_enabled,
                      {.pattern = data.tokenizer_pattern, .document_start = data.document_start});
  require_caseops_as_made(tokenizer);
  return tokenizer;
}

Vocabulary read_vocabulary(const DataConfig& data, int vocab_size) {
  Vocabulary vocabulary{.pieces = vocab_size,
                        .bos_id = vocab_size > gpt2_bos ? gpt2_bos : usual_bos};
  if (!data.bos_id.automatic) vocabulary.bos_id = static_cast<int>(data.bos_id.value);
  if (data.tokenizer_path.empty()) return vocabulary;
  const auto tokenizer = make_tokenizer(data, vocab_size);
  vocabulary.pieces = tokenizer.pieces();
  vocabulary.format = tokenizer.format();
  vocabulary.normalisation = tokenizer.normalisation();
  vocabulary.bytes = {.table = make_byte_table(tokenizer, vocab_size),
                      .bos_id = tokenizer.bos_id()};
  vocabulary.has_bos = tokenizer.bos_id() >= 0;
  if (data.bos_id.automatic && vocabulary.has_bos) vocabulary.bos_id = tokenizer.bos_id();
  return vocabulary;
}

void resolve_bos_id(Settings& settings) {
  auto& bos_id = settings.data.bos_id;
  if (!bos_id.automatic || mode::reads_no_bos_id(settings)) return;
  const auto vocab_size = static_cast<int>(settings.model.vocab_size);
  const auto vocabulary = read_vocabulary(settings.data, vocab_size);
  bos_id = {.value = vocabulary.bos_id};
  if (!vocabulary.has_bos) warn_of_guess(vocabulary.bos_id, vocab_size, settings.data);
}

}  // namespace tg
