#pragma once
#include <functional>
#include <optional>
#include <span>

#include "comm/communicator.h"
#include "data/feeder.h"
#include "device/captured_graph.h"
#include "eval/score.h"
#include "eval/split_tokens.h"
#include "eval/windows.h"
#include "model/gpt.h"

namespace tg {

// How evaluations use a GPU.
struct EvalMode {
  bool graphs = true;           // see CapturedGraph
  bool measure_memory = false;  // as many rows at once as, measured, fit in its memory
};

// Scores windows of a split in batches, without gradients. With `mode.graphs` batches of the usual
// kind (as many rows as fill a large GPU, the last `stride` positions scored) are replayed.
class WindowScorer {
 public:
  // `model` and `tokens` (without bytes: no bits per byte) must outlive this.
  WindowScorer(const Gpt& model, const SplitTokens& tokens, std::int64_t length,
               std::int64_t stride, at::Device device, EvalMode mode, Communicator& communicator);

  // From now on every scored token's nll is also written to its place in `nll` [predictions] fp32.
  void save_token_losses(at::Tensor nll) { saved_ = std::move(nll); }

  // Called with the batches done and their number. The host is at most a few batches ahead of the
  // device.
  using OnBatch = std::function<void(std::int64_t done, std::int64_t batches)>;
  // Adds the windows' scores to `sums`, of the weights as of the last cast_weights().
  void score(std::span<const Window> windows, ScoreSums& sums, const OnBatch& on_batch = {});

 private:
  std::int64_t fitting_rows(std::int64_t wanted) const;
  void add(const WindowBatch& batch, ScoreSums& sums);
  at::Tensor token_losses(const WindowBatch& batch);

  const Gpt& model_;
  const SplitTokens& tokens_;
  std::int64_t length_, stride_;
  at::Device device_;
  std::int64_t most_rows_;
  Communicator& communicator_;
  DeviceBatch batch_;  // of the graph, with targets [most_rows, stride] of what is scored
  at::Tensor losses_;  // [most_rows, stride] fp32, the graph's
  CapturedGraph pass_;
  at::Tensor saved_;
};

// The score with a sliding window of `length` tokens every `stride`: nearly every token has at
// least length − stride tokens of context. Rank r scores windows ⌊n·r/W⌋ to ⌊n·(r+1)/W⌋. With
// `record_quirks` the reference implementation's windows (WindowOptions::rescore_tail). Collective:
// the same score on every rank. `nll` may be undefined, see WindowScorer::save_token_losses().
Score sliding_window_score(Gpt& model, const SplitTokens& tokens, const WindowOptions& options,
                           at::Device device, EvalMode mode, Communicator& communicator,
                           const at::Tensor& nll = {});

}  // namespace tg
