#pragma once
// Test-time training on chunks: the windows that each scores, the rows of it that ranks train on,
// and the steps on these.
#include <cstdint>
#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "eval/ttt_parameters.h"
#include "eval/windows.h"
#include "model/gpt.h"

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
// Returns a rank's rows of chunk `chunk`: of its S = ⌊tokens / length⌋ rows, ⌊S·rank/W⌋ to ⌊S·(rank
// + 1)/W⌋.
ChunkShare share_of_chunk(const ChunkRows& rows, std::int64_t chunk, int rank, int world_size);

// Cosine over chunks: lr·(1 + cos(π·chunk/(chunks − 1)))/2.
double chunk_lr(double lr, std::int64_t chunk, std::int64_t chunks);

// How test-time training trains on its chunks.
struct ChunkTraining {
  ChunkRows rows{};
  std::int64_t batch_rows = 0;  // of a step of all ranks
  bool of_each_rank = false;    // of each rank's part of a step instead, whatever their number
  std::int64_t epochs = 0;
  double grad_clip = 0;  // TttParameters::step()'s max_norm
};

// `rows` rows from token `begin` on, and a rank's part of them: `count` from row `first` on.
struct StepRows {
  std::int64_t begin = 0, rows = 0;
  std::int64_t first = 0, count = 0;
};
// Adds the gradients of this part of the mean loss over all the rows.
using AddGradients = std::function<void(const StepRows& rows)>;

// Steps on the rows of chunk `chunk`, batch_rows at a time; rank r of W computes rows ⌊n·r/W⌋ to
// ⌊n·(r + 1)/W⌋ of a step's n, so that the steps do not depend on the number of ranks. With
// of_each_rank each rank has its own part of the chunk and takes batch_rows of it at a time; the
// gradients of ranks with rows left are averaged, and every rank steps as often as the rank with
// the most rows. Casts the weights after each step. Collective.
void train_on_chunk(std::int64_t chunk, double lr, const ChunkTraining& training,
                    const AddGradients& add_gradients, Gpt& model, TttParameters& parameters,
                    Communicator& communicator);

}  // namespace tg
