#pragma once
// The chunks in which phased test-time training scores a document and learns from it.
#include <cstdint>

namespace tg {

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
