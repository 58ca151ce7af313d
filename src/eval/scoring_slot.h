#pragma once
#include <c10/core/Stream.h>

#include <optional>

#include "eval/document_scorer.h"
#include "weights/named_tensors.h"

namespace tg {

// A batch in flight: what one rank needs to score batches one after the other, a chunk at a time.
// Several slots of a rank are to one another as ranks are: each has adapters, whose A goes from its
// batch to its next one, a generator of them and sums of its own.
class ScoringSlot {
 public:
  // A is drawn by a generator of this seed. All references must outlive this. `own_stream`: on a
  // GPU its work runs on a stream of its own, beside that of other slots; else on the current one.
  ScoringSlot(const Gpt& model, DocumentScorer& scorer, const PhasedTttConfig& config,
              std::int64_t seed, at::Device device, bool own_stream);

  // Before the first batch, and after the current stream changed what slots read: its work from now
  // on comes after the current stream's.
  void follow_current_stream();
  // When the last one is scored.
  void begin(const DocumentBatch& batch);
  bool is_scoring() const { return chunk_ < chunks_; }
  // Scores the batch's next chunk, from which the adapters then learn. Nothing waits for the device
  // but the current stream, whose work from now on comes after that.
  void score_next_chunk();

  // Of the batch that was begun last.
  const DocumentBatch& batch() const { return *batch_; }
  // Its score so far; waits for the slot's work.
  ScoreSums batch_sums_on_host() const;
  // Of all batches that were scored to their end.
  const ScoreSums& sums() const { return sums_; }
  // What was scored since the last restart(), in inputs of a row: the slot with the fewest is the
  // next to score. So who scores which batch is the same with a stop between or without.
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
