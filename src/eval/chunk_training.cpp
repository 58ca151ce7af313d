#include "eval/chunk_training.h"

#include <algorithm>

namespace tg {

void train_on_chunk(std::int64_t chunk, double lr, const ChunkTraining& training,
                    const AddGradients& add_gradients, Gpt& model, TttParameters& parameters,
                    Communicator& communicator) {
  const int world = communicator.world_size();
  const auto share_of = [&](int rank) { return share_of_chunk(training.rows, chunk, rank, world); };
  const auto share = share_of(communicator.rank());
  for (std::int64_t epoch = 0; epoch < training.epochs; ++epoch) {
    for (std::int64_t row = 0; row < share.most_rows; row += training.batch_rows) {
      std::int64_t contributing = 0;
      for (int rank = 0; rank < world; ++rank) contributing += row < share_of(rank).rows;
      const auto rows = std::min(training.batch_rows, share.rows - row);
      if (rows > 0) add_gradients(share.begin + row * training.rows.length, rows);
      parameters.step(communicator, contributing, training.grad_clip, lr);
      parameters.zero_gradients();
      model.cast_weights();
      communicator.progress();
    }
  }
}

}  // namespace tg
