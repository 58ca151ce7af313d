#pragma once
#include <c10/core/Stream.h>

#include <optional>

#include "eval/document_scorer.h"
#include "weights/named_tensors.h"

namespace tg {

// A batch in flight: what one rank needs to score batches one after the other, a chunk at a time.
// Each slot acts as a virtual rank: it has adapters, whose A goes from its batch to its next one,
// their generator, and sums of its own.
class ScoringSlot {
 public:
  // A is drawn by a generator of this seed. All references must outlive this. `own_stream`: on a
  // GPU the work runs on a stream of its own, beside other slots' work; else on the current stream.
  ScoringSlot(const Gpt& model, DocumentScorer& scorer, const PhasedTttConfig& config,
              std::int64_t seed, at::Device device, bool own_stream);

  // Orders the slot's further work after the current stream's. Call it before the first batch, and
  // after the current stream changed what slots read.
  void follow_current_stream();
  // Begins a batch. Precondition: the batch before is scored.
  void begin(const DocumentBatch& batch);
  bool is_scoring() const { return chunk_ < chunks_; }
  // Scores the batch's next chunk and trains the adapters on it. The host does not wait; the
  // current stream's further work comes after it.
  void score_next_chunk();

  // Returns the batch that was begun last.
  const DocumentBatch& batch() const { return *batch_; }
  // Its score so far; waits for the slot's work.
  ScoreSums batch_sums_on_host() const;
  // Returns the sums over all batches that were scored to their end.
  const ScoreSums& sums() const { return sums_; }
  // Inputs of the rows scored since the last restart(). The slot with the fewest is the next to
  // score, so that the order is the same with a stop in between or without.
  std::int64_t inputs() const { return inputs_; }
  // For batches after the weights changed: another A.
  void restart();

  // From now on state() can be asked while a batch is in flight: each full batch costs a copy of A
  // on the device.
  void keep_state() { keeps_state_ = true; }
  // What the slot goes on from between two batches; of a batch in flight as before it began.
  // "generator" and "inputs" are copies, to the others can be written between batches. A only where
  // it goes to the next batch.
  NamedTensors state() const;
  // Takes over those copies.
  void resume(const at::Tensor& generator, const at::Tensor& inputs);

 private:
  AdapterSet& set() { return incomplete_ ? *incomplete_ : full_; }

  const Gpt& model_;
  DocumentScorer& scorer_;
  const PhasedTttConfig& config_;
  const at::Device device_;
  std::optional<c10::Stream> stream_;  // with own_stream, of a GPU
  at::Generator generator_;
  AdapterSet full_;                       // of full batches
  std::optional<AdapterSet> incomplete_;  // of a smaller batch
  const DocumentBatch* batch_ = nullptr;
  std::int64_t chunk_ = 0, chunks_ = 0;  // the next one, and how many the batch has
  ScoreSums batch_sums_, sums_;
  std::int64_t inputs_ = 0;
  bool keeps_state_ = false;
  // What the batch in flight changes, as it was before; A undefined where the batch leaves it.
  struct Before {
    at::Tensor generator, a;
    std::int64_t inputs = 0;
  } before_;
};

}  // namespace tg
