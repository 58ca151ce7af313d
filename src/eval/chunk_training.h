#pragma once
#include <cstdint>
#include <functional>

#include "comm/communicator.h"
#include "eval/ttt_chunks.h"
#include "eval/ttt_parameters.h"
#include "model/gpt.h"

namespace tg {

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
// Adds the gradients of the part's share in the mean loss of all the rows.
using AddGradients = std::function<void(const StepRows& rows)>;

// Steps on the rows of chunk `chunk`, batch_rows after batch_rows, of which rank r of W has those
// from ⌊n·r/W⌋ to ⌊n·(r + 1)/W⌋: the same steps on any number of ranks. Or of_each_rank: each rank
// has such a share of the chunk and takes batch_rows of it at a time, the gradients of those that
// have some left are averaged, and every rank steps as often as the one with the most rows. Casts
// the weights after each step. Collective.
void train_on_chunk(std::int64_t chunk, double lr, const ChunkTraining& training,
                    const AddGradients& add_gradients, Gpt& model, TttParameters& parameters,
                    Communicator& communicator);

}  // namespace tg
