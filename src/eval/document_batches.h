#pragma once
// Schedule of phased test-time training: batches of documents and their order, the batches after
// which scored documents train the weights, and the chunks of a document.
#include <cstdint>
#include <span>
#include <vector>

namespace tg {

// Tokens of a split from a document's BOS to the next document's BOS, included; for the last
// document to the split's end.
struct DocumentSpan {
  std::int64_t start = 0, length = 0;
  // Every token but the first is predicted.
  std::int64_t predictions() const { return length - 1; }
  bool operator==(const DocumentSpan&) const = default;
};

// Returns the documents in the split's order. Tokens before the first BOS form a document as well;
// a BOS at the split's end begins none.
std::vector<DocumentSpan> find_documents(std::span<const std::uint16_t> tokens,
                                         std::int64_t bos_id);
// Returns the number of documents to score: the first VAL_DOC_FRACTION of n, at least one.
std::int64_t documents_to_score(std::int64_t documents, double fraction);
// Returns the documents to score, in the order of find_documents().
std::vector<DocumentSpan> find_documents_to_score(std::span<const std::uint16_t> tokens,
                                                  std::int64_t bos_id, double fraction);

struct DocumentBatch {
  std::int64_t index = 0;                 // from the batch of the shortest documents on
  std::vector<DocumentSpan> documents{};  // shortest first
  std::int64_t longest() const { return documents.back().length; }
};

// Sorts documents by length (equal lengths in the split's order) and cuts them into batches of
// `batch_size`, the last with what remains. Returns the batches in the order of scoring, longest
// document first.
std::vector<DocumentBatch> batch_by_length(std::vector<DocumentSpan> documents,
                                           std::int64_t batch_size);

// ⌊prefix_docs·k/num_phases⌋ for k = 1 … num_phases; none without prefix documents.
std::vector<std::int64_t> phase_boundaries(std::int64_t prefix_docs, std::int64_t num_phases);

// Base training between two batches, on documents that are scored.
struct TttPhase {
  std::int64_t batches = 0;              // all that are scored before it
  std::int64_t scored = 0;               // their documents
  std::vector<DocumentSpan> training{};  // the first `boundary` of them, shortest first
};
// A phase comes after the first batch with which as many documents are scored as its boundary says,
// and after a batch comes one phase at most. So there are fewer phases than boundaries where the
// batches end before.
std::vector<TttPhase> plan_phases(std::span<const DocumentBatch> batches,
                                  std::span<const std::int64_t> boundaries);

// The documents one after the other, with one BOS between two; with `repeat_bos` two where the
// first one's tokens end with the next document's BOS.
std::vector<std::uint16_t> join_documents(std::span<const std::uint16_t> tokens,
                                          std::span<const DocumentSpan> documents,
                                          std::int64_t bos_id, bool repeat_bos);

struct ChunkOptions {
  std::int64_t chunk_size = 0;   // C, TTT_CHUNK_SIZE
  std::int64_t longest_row = 0;  // X ≥ C, TTT_EVAL_SEQ_LEN
};

// ⌈predictions / C⌉.
std::int64_t chunks_of_document(std::int64_t predictions, const ChunkOptions& options);
// Inputs of a row of a batch's pass for the chunk: min((chunk + 1)·C, X).
std::int64_t row_length(std::int64_t chunk, const ChunkOptions& options);

// What a row of a pass reads of a document: `length` inputs from its token `start` on, of whose
// predictions those at [offset, offset + scored) are the chunk's. All zero: the document has no
// such chunk.
struct ChunkWindow {
  std::int64_t start = 0, length = 0, offset = 0, scored = 0;
  bool operator==(const ChunkWindow&) const = default;
};
// Chunk `chunk` ends at e = min((chunk + 1)·C, predictions), and its window begins at max(0, e −
// X). So a chunk that is not the document's last one fills the row and is the last C of it.
ChunkWindow chunk_window(std::int64_t predictions, std::int64_t chunk, const ChunkOptions& options);

}  // namespace tg
