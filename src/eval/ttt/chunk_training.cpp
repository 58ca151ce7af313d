#include "eval/ttt/chunk_training.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tg {

std::vector<std::vector<Window>> windows_of_chunks(std::int64_t predictions,
                                                   const WindowOptions& options,
                                                   std::int64_t chunk_tokens) {
  const auto chunks = (predictions + chunk_tokens - 1) / chunk_tokens;
  std::vector<std::vector<Window>> windows(static_cast<std::size_t>(chunks));
  for (const auto& window : sliding_windows(predictions, options)) {
    const auto chunk = std::min((window.begin + window.from) / chunk_tokens, chunks - 1);
    windows[static_cast<std::size_t>(chunk)].push_back(window);
  }
  return windows;
}

RankRows rank_rows(const ChunkRows& rows, std::int64_t chunk, int rank, int world_size) {
  const auto begin = chunk * rows.chunk_tokens;
  const auto count = (std::min(begin + rows.chunk_tokens, rows.predictions) - begin) / rows.length;
  const auto first_of = [&](std::int64_t r) { return count * r / world_size; };
  RankRows range{.begin = begin + first_of(rank) * rows.length,
                 .rows = first_of(rank + 1) - first_of(rank)};
  for (int r = 0; r < world_size; ++r)
    range.most_rows = std::max(range.most_rows, first_of(r + 1) - first_of(r));
  return range;
}

double chunk_lr(double lr, std::int64_t chunk, std::int64_t chunks) {
  const auto last = static_cast<double>(std::max<std::int64_t>(chunks - 1, 1));
  return lr * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(chunk) / last));
}

namespace {

// The rows of a step after `done` rows of the range that rank `rank` of `sharing` ranks has in the
// chunk.
StepRows next_rows(const ChunkTraining& training, std::int64_t chunk, std::int64_t done, int rank,
                   int sharing) {
  const auto range = rank_rows(training.rows, chunk, rank, sharing);
  const auto rows = std::clamp<std::int64_t>(range.rows - done, 0, training.batch_rows);
  return {.begin = range.begin + done * training.rows.length, .rows = rows, .count = rows};
}

}  // namespace

void train_on_chunk(std::int64_t chunk, double lr, const ChunkTraining& training,
                    const AddGradients& add_gradients, Gpt& model, TttParameters& parameters,
                    Communicator& communicator) {
  const int rank = communicator.rank(), world = communicator.world_size();
  const auto rows_of = [&](std::int64_t done, int r) {
    if (training.per_rank) return next_rows(training, chunk, done, r, world);
    auto rows = next_rows(training, chunk, done, 0, 1);
    rows.first = rows.rows * r / world;
    rows.count = rows.rows * (r + 1) / world - rows.first;
    return rows;
  };
  const int sharing = training.per_rank ? world : 1;
  const auto most = rank_rows(training.rows, chunk, 0, sharing).most_rows;
  for (std::int64_t epoch = 0; epoch < training.epochs; ++epoch) {
    for (std::int64_t done = 0; done < most; done += training.batch_rows) {
      std::int64_t means = 0;  // number of means that the gradient averages
      for (int r = 0; r < sharing; ++r) means += rows_of(done, r).rows > 0;
      const auto rows = rows_of(done, rank);
      if (rows.count > 0) add_gradients(rows);
      parameters.step(communicator, means, training.grad_clip, lr);
      parameters.zero_gradients();
      model.cast_weights();
      communicator.progress();
    }
  }
}

}  // namespace tg
