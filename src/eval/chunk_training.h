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
  std::int64_t batch_rows = 0;  // of a rank's step
  std::int64_t epochs = 0;
  double grad_clip = 0;  // TttParameters::step()'s max_norm
};

// Adds the gradients of the mean loss of `rows` rows from token `begin` on.
using AddGradients = std::function<void(std::int64_t begin, std::int64_t rows)>;

// Steps on the rows of chunk `chunk`, of which each rank has a share and takes batch_rows at a
// time. Every rank steps as often as the one with the most rows, and casts the weights after each
// step. Collective.
void train_on_chunk(std::int64_t chunk, double lr, const ChunkTraining& training,
                    const AddGradients& add_gradients, Gpt& model, TttParameters& parameters,
                    Communicator& communicator);

}  // namespace tg
