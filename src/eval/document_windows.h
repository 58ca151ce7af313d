#pragma once
#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "config/phased_ttt_config.h"
#include "eval/document_batches.h"
#include "eval/score.h"
#include "eval/split_tokens.h"
#include "model/gpt.h"

namespace tg {

// What one pass reads and scores of a document: `length` inputs from the split's token `start` on,
// of whose predictions those from position `from` on count.
struct DocumentRow {
  std::int64_t start = 0, length = 0, from = 0;
  bool operator==(const DocumentRow&) const = default;
};
// The windows in which phased test-time training scores the document's chunks. Those that begin
// with it are one, which changes no score.
std::vector<DocumentRow> rows_of_document(const DocumentSpan& document,
                                          const ChunkOptions& options);

// The score of the documents that phased test-time training would score, in its windows, with
// nothing learning. A document begins with `bos_id`.
// `nll` [predictions] fp32 on the device also receives every scored token's nll at its place; it
// may be undefined. Collective: the same on every rank.
Score score_documents(Gpt& model, const SplitTokens& tokens, const PhasedTttConfig& config,
                      std::int64_t bos_id, at::Device device, Communicator& communicator,
                      const at::Tensor& nll = {});

}  // namespace tg
