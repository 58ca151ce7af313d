#pragma once
// What each chunk of test-time training scores and then trains on.
#include <cstdint>
#include <vector>

#include "config/ttt_config.h"
#include "eval/windows.h"

namespace tg {

// A chunk's windows; a window belongs to the chunk of the first token that it scores.
std::vector<std::vector<Window>> windows_of_chunks(std::int64_t predictions,
                                                   const WindowOptions& options,
                                                   std::int64_t chunk_tokens);

// Tokens cut into chunks, and each chunk into rows.
struct ChunkRows {
  std::int64_t predictions = 0;   // of all chunks
  std::int64_t chunk_tokens = 0;  // the last chunk may have fewer
  std::int64_t length = 0;        // tokens of a row
  std::int64_t chunks() const { return (predictions + chunk_tokens - 1) / chunk_tokens; }
};
// Whole rows of one chunk that a rank trains on.
struct ChunkShare {
  std::int64_t begin = 0;      // first token of this rank's part
  std::int64_t rows = 0;       // of this rank
  std::int64_t most_rows = 0;  // of any rank: all ranks run as many batches
};
// Of all ⌊tokens / length⌋ = S rows of chunk `chunk`, those from ⌊S·rank/W⌋ to ⌊S·(rank + 1)/W⌋.
ChunkShare share_of_chunk(const ChunkRows& rows, std::int64_t chunk, int rank, int world_size);

// Cosine over chunks: lr·(1 + cos(π·chunk/(chunks − 1)))/2.
double chunk_lr(double lr, std::int64_t chunk, std::int64_t chunks);

}  // namespace tg
