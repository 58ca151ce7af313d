#pragma once
// The schedule of phased test-time training: which documents form a batch, the order of batches,
// the phases of training on scored documents in between, and the chunks in which a document is
// scored and trained on.
#include <cstdint>
#include <span>
#include <vector>

#include "data/ids.h"

namespace tg {

// Tokens of a split from a document's BOS up to and including the next document's BOS; for the last
// document, up to the split's end.
struct DocumentSpan {
  std::int64_t start = 0, length = 0;
  // Every token but the first is predicted.
  std::int64_t predictions() const { return length - 1; }
  bool operator==(const DocumentSpan&) const = default;
};

// Finds documents, in the split's order. Tokens before the first BOS form a document as well; a BOS
// at the split's end begins none.
std::vector<DocumentSpan> find_documents(const Ids& tokens, std::int64_t bos_id);
// Returns the number of documents to score: the first VAL_DOC_FRACTION of n, at least one.
std::int64_t documents_to_score(std::int64_t documents, double fraction);
// The first documents_to_score() of find_documents().
std::vector<DocumentSpan> find_documents_to_score(const Ids& tokens, std::int64_t bos_id,
                                                  double fraction);

struct DocumentBatch {
  std::int64_t index = 0;                 // rank of the batch by document length, shortest first
  std::vector<DocumentSpan> documents{};  // shortest first
  std::int64_t longest() const { return documents.back().length; }
};

// Sorts documents by length (stable) and splits them into batches of `batch_size`, the last one
// with the remainder. Returns the batches in the order of scoring: by their longest document,
// descending.
std::vector<DocumentBatch> batch_by_length(std::vector<DocumentSpan> documents,
                                           std::int64_t batch_size);

// ⌊prefix_docs·k/num_phases⌋ for k = 1 … num_phases; none without prefix documents.
std::vector<std::int64_t> phase_boundaries(std::int64_t prefix_docs, std::int64_t num_phases);

// A phase of training on scored documents, between two batches.
struct TttPhase {
  std::int64_t batches = 0;              // number of batches scored before it
  std::int64_t scored = 0;               // number of their documents
  std::vector<DocumentSpan> training{};  // the first `boundary` of them, shortest first
};
// A phase follows the first batch after which at least as many documents are scored as its boundary
// says; at most one phase follows a batch. So there may be fewer phases than boundaries.
std::vector<TttPhase> plan_phases(std::span<const DocumentBatch> batches,
                                  std::span<const std::int64_t> boundaries);

// Concatenates the documents with one BOS between two; with `repeat_bos`, with two if the first
// one's tokens end with the next document's BOS.
std::vector<TokenId> join_documents(const Ids& tokens, std::span<const DocumentSpan> documents,
                                    std::int64_t bos_id, bool repeat_bos);

struct ChunkOptions {
  std::int64_t chunk_size = 0;   // C, TTT_CHUNK_SIZE
  std::int64_t longest_row = 0;  // X ≥ C, TTT_EVAL_SEQ_LEN
};

// ⌈predictions / C⌉.
std::int64_t chunks_of_document(std::int64_t predictions, const ChunkOptions& options);
// Length of a row in a batch's pass for the chunk: min((chunk + 1)·C, X).
std::int64_t row_length(std::int64_t chunk, const ChunkOptions& options);

// Input of a row: `length` tokens of a document from its token `start` on; the chunk's predictions
// are at positions [offset, offset + scored). All zero: the document has no such chunk.
struct ChunkWindow {
  std::int64_t start = 0, length = 0, offset = 0, scored = 0;
  bool operator==(const ChunkWindow&) const = default;
};
// Chunk `chunk` ends at e = min((chunk + 1)·C, predictions), and its window begins at max(0, e −
// X). So a chunk that is not the document's last one fills the row, and is its last C positions.
ChunkWindow chunk_window(std::int64_t predictions, std::int64_t chunk, const ChunkOptions& options);

}  // namespace tg
