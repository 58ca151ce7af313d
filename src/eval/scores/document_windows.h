#pragma once
#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "config/ttt_config.h"
#include "eval/scores/document_batches.h"
#include "eval/scores/score.h"
#include "eval/scores/split_tokens.h"
#include "model/gpt.h"

namespace tg {

// Input of one row: `length` tokens from the split's token `start` on; predictions from position
// `from` on are scored.
struct DocumentRow {
  std::int64_t start = 0, length = 0, from = 0;
  bool operator==(const DocumentRow&) const = default;
};
// The windows in which phased test-time training scores the document's chunks. Windows that begin
// at the document's beginning are merged into one, which changes no score.
std::vector<DocumentRow> rows_of_document(const DocumentSpan& document,
                                          const ChunkOptions& options);

// Scores the documents that phased test-time training would score, in its windows, without
// training. `bos_id` begins a document. Also writes every scored token's nll to its index in `nll`
// [predictions] fp32 on the device, if defined. Collective: all ranks return the same score.
Score score_documents(Gpt& model, const SplitTokens& tokens, const PhasedTttConfig& config,
                      std::int64_t bos_id, at::Device device, Communicator& communicator,
                      const at::Tensor& nll = {});

}  // namespace tg
