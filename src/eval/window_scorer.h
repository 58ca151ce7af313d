#pragma once
#include <functional>
#include <optional>
#include <span>

#include "comm/communicator.h"
#include "device/captured_graph.h"
#include "eval/score.h"
#include "eval/split_tokens.h"
#include "eval/windows.h"
#include "model/gpt.h"
#include "ops/loss/byte_count.h"

namespace tg {

// Scores windows of a split in batches, without gradients. With `graphs` batches of the usual kind
// (as many rows as fit, the last `stride` positions scored) are replayed; see CapturedGraph.
class WindowScorer {
 public:
  // `model`, `tokens` and `bytes` (null: no bits per byte) must outlive this.
  WindowScorer(const Gpt& model, const SplitTokens& tokens, const DeviceByteTable* bytes,
               std::int64_t length, std::int64_t stride, at::Device device, bool graphs,
               Communicator& communicator);

  // From now on every scored token's nll is also written to its place in `nll` [predictions] fp32.
  void save_token_losses(at::Tensor nll) { saved_ = std::move(nll); }

  // Called with the batches done and their number. The host is at most a few batches ahead of the
  // device.
  using OnBatch = std::function<void(std::int64_t done, std::int64_t batches)>;
  // Adds the windows' scores to `sums`, of the weights as of the last cast_weights().
  void score(std::span<const Window> windows, ScoreSums& sums, const OnBatch& on_batch = {});

 private:
  void add(const WindowBatch& batch, ScoreSums& sums);
  at::Tensor token_losses(const WindowBatch& batch);

  const Gpt& model_;
  const SplitTokens& tokens_;
  const DeviceByteTable* bytes_;
  std::int64_t length_, stride_, most_rows_;
  at::Device device_;
  Communicator& communicator_;
  at::Tensor inputs_, targets_;  // [most_rows, length], [most_rows, stride] int64, of the graph
  at::Tensor losses_;            // [most_rows, stride] fp32, the graph's
  CapturedGraph pass_;
  at::Tensor saved_;
};

}  // namespace tg
