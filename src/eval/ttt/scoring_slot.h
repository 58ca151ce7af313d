#pragma once
#include <c10/core/Stream.h>

#include <optional>

#include "eval/scores/document_scorer.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// A batch in flight: scores batches one after the other, chunk by chunk. Each slot of a rank acts
// as a virtual rank with its own adapters, whose A warm-starts its next batch, generator and sums.
class ScoringSlot {
 public:
  // Draws A from a generator with this seed. All references must outlive this object. `own_stream`:
  // on a GPU, the slot's work runs on a stream of its own, overlapping with other slots; else on
  // the current one.
  ScoringSlot(const Gpt& model, DocumentScorer& scorer, const PhasedTttConfig& config,
              std::int64_t seed, at::Device device, bool own_stream);

  // Makes the slot's later work wait for the current stream. Call it before the first batch, and
  // after the current stream has changed what slots read.
  void follow_current_stream();
  // Begins a batch. Precondition: the previous one is scored.
  void begin(const DocumentBatch& batch);
  bool is_scoring() const { return chunk_ < chunks_; }
  // Scores the batch's next chunk, then trains the adapters on it. The host does not wait; later
  // work on the current stream does.
  void score_next_chunk();

  // The batch that was begun last.
  const DocumentBatch& batch() const { return *batch_; }
  // The score of batch() so far; waits for the slot's work.
  ScoreSums batch_sums_on_host() const;
  // Sums over all completely scored batches.
  const ScoreSums& sums() const { return sums_; }
  // Work since the last restart(), in input tokens per row: the slot with the least scores next, so
  // that the assignment of batches to slots is the same with and without a stop.
  std::int64_t inputs() const { return inputs_; }
  // Prepares for batches after a change of the weights: redraws A.
  void restart();

  // Allows state() while a batch is in flight; costs a copy of A on the device for each full batch.
  void keep_state() { keeps_state_ = true; }
  // State to resume from between two batches; with a batch in flight, the state before it began.
  // "generator" and "inputs" are copies; the others share storage, which may be written between
  // batches. Contains A only if it warm-starts the next batch.
  NamedTensors state() const;
  // Restores "generator" and "inputs".
  void resume(const at::Tensor& generator, const at::Tensor& inputs);

 private:
  AdapterSet& set() { return incomplete_ ? *incomplete_ : full_; }

  const Gpt& model_;
  DocumentScorer& scorer_;
  const PhasedTttConfig& config_;
  const at::Device device_;
  std::optional<c10::Stream> stream_;  // with own_stream, on a GPU
  at::Generator generator_;
  AdapterSet full_;                       // for full batches
  std::optional<AdapterSet> incomplete_;  // for a smaller batch
  const DocumentBatch* batch_ = nullptr;
  std::int64_t chunk_ = 0, chunks_ = 0;  // index of the next chunk, and number of chunks
  ScoreSums batch_sums_, sums_;
  std::int64_t inputs_ = 0;
  bool keeps_state_ = false;
  // State before the batch in flight began; `a` is undefined if the batch does not change it.
  struct Before {
    at::Tensor generator, a;
    std::int64_t inputs = 0;
  } before_;
};

}  // namespace tg
