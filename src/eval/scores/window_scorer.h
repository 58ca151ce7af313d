#pragma once
#include <functional>
#include <optional>
#include <span>

#include "comm/communicator.h"
#include "data/feeder.h"
#include "device/captured_graph.h"
#include "eval/scores/score.h"
#include "eval/scores/split_tokens.h"
#include "eval/scores/windows.h"
#include "model/gpt.h"
#include "model/micro_step.h"

namespace tg {

// Documents for passes that measure memory: each row of ids [B, T] is one document; nullopt if
// `tokens` have no documents.
std::optional<Documents> whole_rows(const SplitTokens& tokens, const at::Tensor& ids_bt);

// Copies the segments of another batch of the same shape to `batch.segments`, padded with empty
// segments. Returns true if that needed a larger buffer, which has another address.
bool hold_segments(const at::Tensor& segments, DeviceBatch& batch);

// Options of evaluations on a GPU.
struct EvalMode {
  bool graphs = true;           // see CapturedGraph
  bool measure_memory = false;  // choose the rows per pass by measuring the GPU's memory
};

// Scores windows of a split in batches, without gradients. With `mode.graphs`, batches of the usual
// form (as many rows as fill a large GPU, the last `stride` positions scored) replay a captured
// graph.
class WindowScorer {
 public:
  // `model` and `tokens` must outlive this object; if the tokens have no byte counts, there is no
  // bpb.
  WindowScorer(const Gpt& model, const SplitTokens& tokens, std::int64_t length,
               std::int64_t stride, at::Device device, EvalMode mode, Communicator& communicator);

  // Also writes each later scored token's nll to its index in `nll` [predictions] fp32.
  void save_token_losses(at::Tensor nll) { saved_ = std::move(nll); }

  // Called with the number of batches done and of all batches. The host is at most a few batches
  // ahead of the device.
  using OnBatch = std::function<void(std::int64_t done, std::int64_t batches)>;
  // Adds the windows' scores to `sums`, with the weights of the last cast_weights().
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
  DeviceBatch
      batch_;  // static input of the graph; targets [most_rows, stride], at the scored positions
  at::Tensor losses_;  // [most_rows, stride] fp32, output of the graph
  CapturedGraph pass_;
  at::Tensor saved_;
};

// Scores with a sliding window of `length` tokens every `stride`: nearly every token has at least
// length − stride tokens of context. Rank r scores windows ⌊n·r/W⌋ to ⌊n·(r+1)/W⌋. `record_quirks`
// selects the reference implementation's windows (WindowOptions::rescore_tail). `nll` may be
// undefined, see WindowScorer::save_token_losses(). Collective: all ranks return the same score.
Score sliding_window_score(Gpt& model, const SplitTokens& tokens, const WindowOptions& options,
                           at::Device device, EvalMode mode, Communicator& communicator,
                           const at::Tensor& nll = {});

}  // namespace tg
