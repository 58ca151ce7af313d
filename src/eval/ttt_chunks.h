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

// Whole sequences of one chunk that a rank trains on, as rows of `seq_len` tokens.
struct ChunkShare {
  std::int64_t begin = 0;      // first token of this rank's part
  std::int64_t rows = 0;       // of this rank
  std::int64_t most_rows = 0;  // of any rank: all ranks run as many batches
};
// Of all ⌊tokens / seq_len⌋ = S sequences of chunk `chunk`, those from ⌊S·rank/W⌋ to
// ⌊S·(rank + 1)/W⌋.
ChunkShare share_of_chunk(std::int64_t predictions, std::int64_t chunk, std::int64_t chunk_tokens,
                          std::int64_t seq_len, int rank, int world_size);

// Cosine over chunks: lr·(1 + cos(π·chunk/(chunks − 1)))/2.
double chunk_lr(double lr, std::int64_t chunk, std::int64_t chunks);

}  // namespace tg
