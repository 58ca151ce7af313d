#pragma once
// Test-time training on chunks: the windows that a chunk scores, its division over ranks, the
// parameters that it updates, and the training steps on its rows.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "eval/scores/windows.h"
#include "model/gpt.h"
#include "model/parameters.h"
#include "optim/loss_scale.h"
#include "optim/sgd.h"

namespace tg {

// The windows of each chunk; a window belongs to the chunk of the first token that it scores.
std::vector<std::vector<Window>> windows_of_chunks(std::int64_t predictions,
                                                   const WindowOptions& options,
                                                   std::int64_t chunk_tokens);

// Division of tokens into chunks, and of chunks into rows.
struct ChunkRows {
  std::int64_t predictions = 0;   // of all chunks
  std::int64_t chunk_tokens = 0;  // the last chunk may have fewer
  std::int64_t length = 0;        // tokens of a row
  std::int64_t chunks() const { return (predictions + chunk_tokens - 1) / chunk_tokens; }
};
// The whole rows of one chunk that a rank trains on.
struct RankRows {
  std::int64_t begin = 0;      // first token of this rank's range
  std::int64_t rows = 0;       // of this rank
  std::int64_t most_rows = 0;  // maximum over ranks, for which all ranks run batches
};
// With S = ⌊tokens / length⌋ rows in chunk `chunk`: rows ⌊S·rank/W⌋ to ⌊S·(rank + 1)/W⌋.
RankRows rank_rows(const ChunkRows& rows, std::int64_t chunk, int rank, int world_size);

// Cosine over chunks: lr·(1 + cos(π·chunk/(chunks − 1)))/2.
double chunk_lr(double lr, std::int64_t chunk, std::int64_t chunks);

// Parameters that test-time training updates: every exported parameter except in the first
// `frozen_blocks` blocks, whose matrices are slices of the banks.
class TttParameters {
 public:
  // `record_quirks`: also updates the banks' slices of frozen blocks. `scaled_tokens`:
  // see LossScale; 0: no loss scaling.
  TttParameters(const ParameterTable& table, std::int64_t frozen_blocks, double momentum,
                bool record_quirks, std::int64_t scaled_tokens);

  // Loss scale that gradients must be multiplied by until step(), as Optimizer::grad_scale().
  at::Tensor grad_scale() const {
    return loss_scale_ ? loss_scale_->gradient_scale() : at::Tensor();
  }

  std::int64_t unfrozen() const { return unfrozen_; }  // elements
  std::int64_t as_constants() const { return frozen_; }

  // Zeroes the gradients, and allocates missing ones, so that all ranks sum the same tensors. Call
  // it also before the first backward pass.
  void zero_gradients();
  // Sums the gradients over ranks and divides by `means`, the number of means in the sum; clips to
  // the global norm `max_norm` (0: no clipping); updates the parameters by SGD. Gradients that
  // overflowed count as zero. Collective.
  void step(Communicator& communicator, std::int64_t means, double max_norm, double lr);

 private:
  struct Part {
    at::Tensor parameter;  // the table's row
    at::Tensor value;      // the row's value or a slice of it
  };
  std::vector<at::Tensor> gradients() const;  // of the parts
  void unscale(const std::vector<at::Tensor>& gradients);

  const ParameterTable& table_;
  std::vector<Part> parts_;
  std::int64_t unfrozen_ = 0, frozen_ = 0;
  std::optional<Sgd> sgd_;
  std::optional<LossScale> loss_scale_;
};

// Options of training on chunks.
struct ChunkTraining {
  ChunkRows rows{};
  std::int64_t batch_rows = 0;  // rows of a step, over all ranks
  bool per_rank = false;  // batch_rows counts per rank instead, independent of the number of ranks
  std::int64_t epochs = 0;
  double grad_clip = 0;  // max_norm of TttParameters::step()
};

// `rows` rows from token `begin` on, of which this rank has `count` rows from row `first` on.
struct StepRows {
  std::int64_t begin = 0, rows = 0;
  std::int64_t first = 0, count = 0;
};
// Adds the gradients of this rank's contribution to the mean loss over all the rows.
using AddGradients = std::function<void(const StepRows& rows)>;

// Trains on chunk `chunk` in steps of batch_rows rows. Rank r of W takes rows ⌊n·r/W⌋ to ⌊n·(r +
// 1)/W⌋ of each step, so that the steps are the same on any number of ranks. With per_rank, the
// ranks divide the chunk instead, each takes batch_rows of its rows per step, the gradients of
// ranks that have rows left are averaged, and all ranks run as many steps as the one with the most
// rows. Casts the weights after each step. Collective.
void train_on_chunk(std::int64_t chunk, double lr, const ChunkTraining& training,
                    const AddGradients& add_gradients, Gpt& model, TttParameters& parameters,
                    Communicator& communicator);

}  // namespace tg
