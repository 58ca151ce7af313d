#pragma once
#include <optional>
#include <vector>

#include "base/elapsed.h"
#include "eval/scores/document_scorer.h"
#include "eval/scores/eta.h"
#include "eval/ttt/base_training.h"
#include "eval/ttt/scoring_slot.h"

namespace tg {

// Phased test-time training: scores the documents of the split in batches, chunk by chunk; after a
// chunk is scored, it trains low-rank adapters of its document. After some batches, a phase of
// training updates the model's parameters on scored documents. So every token is scored once,
// before any update that used it, and no score depends on later tokens of its document. Ranks claim
// the batches of a phase from a shared counter and train together in every phase, so the documents
// of each phase do not depend on the number of ranks. Only the warm start of A depends on the claim
// order: a batch starts from the A of the previous batch in its slot.
//
// With TTT_CONCURRENT_BATCHES > 1 a rank has that many batches in flight, each in a slot that acts
// as a virtual rank. One host thread scores a chunk of the slot that has scored least, on the
// slot's stream, then one of the next, so that small kernels of several batches overlap. On one
// rank, the assignment of batches to slots depends only on the documents.
//
// With state_files each rank saves its state between batches. When a rank is told to stop, all
// ranks finish the chunk that they score, discard batches in flight or the current phase of
// training, and save. A run that finds state files resumes from them, on one rank bit-identically
// to an uninterrupted run, and removes them at its end.
class PhasedTtt {
 public:
  // All references must outlive this object.
  PhasedTtt(Gpt& model, const ParameterTable& table, const SplitTokens& tokens,
            const PhasedTttOptions& options, at::Device device, Communicator& communicator);

  void save_token_losses(at::Tensor nll) { scorer_.save_token_losses(std::move(nll)); }
  // Runs the evaluation; changes the parameters. Logs the reference implementation's lines.
  // Collective: all ranks return the same score. Throws stopped, on every rank; errors of loading a
  // state, and after a stop of saving it; ExitCode::config if two states have scored the same
  // batch.
  Score run();

 private:
  // Claims and scores unscored batches before batches_[end]; waits until the other ranks have
  // scored theirs. Throws stopped.
  void score_batches(std::int64_t end, const EtaLine& eta);
  // Records that the slot's batch is scored.
  void record(const ScoringSlot& slot, const EtaLine& eta);
  // Work before the first batch that no earlier phase or run has scored, in input tokens per row.
  std::int64_t inputs_scored_before() const;
  // Sums over all slots.
  ScoreSums sums() const;
  void train_on(const TttPhase& phase);
  // Returns whether a rank was told to stop: this one, or another one, which this rank learns
  // within a second. `counter`: shared counter through which ranks tell each other.
  bool asked_to_stop(int counter);
  // This rank's state; contains the weights once a phase has changed them.
  NamedTensors state() const;
  // Call it before the weights change: determines the origin, and logs the state's file and size.
  void begin_saving();
  // Throws errors of the files.
  void save() const;
  // Saves if saving is due. A failure is a warning.
  void save_between_batches() {
    if (pace_ && pace_->due()) try_to_save();
  }
  // Returns whether the state was saved. A failure is a warning.
  bool try_to_save();
  // Replaces the state of the previous phase, if there is one. Collective.
  void save_after_phase();
  // Copies the model's weights to weights_.
  void keep_weights();
  // Collective. Throws stopped.
  [[noreturn]] void save_and_stop() const;
  // Collective.
  void resume();
  // Number of phases in the state to resume from: the highest for which every rank has a state;
  // nullopt if there is none. For 0, some ranks may lack a state, since they had not saved yet.
  // Collective.
  std::optional<std::size_t> phases_saved() const;
  void load(std::size_t phases);
  // How often each batch was scored, summed over ranks. Collective.
  std::vector<double> times_scored() const;
  // What a state depends on; `weights` are the current ones.
  Metadata origin() const;
  // Waits for the slot's work.
  void log_batch(const ScoringSlot& slot);

  Gpt& model_;
  const ParameterTable& table_;
  const PhasedTttOptions options_;
  const at::Device device_;
  Communicator& communicator_;
  const SplitTokens& split_;
  DocumentScorer scorer_;
  const at::Tensor tokens_;  // [predictions + 1] of id_dtype() in host memory
  std::int64_t documents_, prefix_documents_;
  std::vector<DocumentBatch> batches_;  // in the order of scoring
  // Cumulative work at the end of each batch, in input tokens per row.
  std::vector<std::int64_t> inputs_until_;
  std::vector<std::int64_t> boundaries_;
  std::vector<TttPhase> phases_;
  std::size_t phases_done_ = 0;
  at::Tensor scored_;  // [batches] fp64 in host memory: 1 where this rank has scored the batch
  Metadata origin_;    // at the beginning of this run, with state_files
  std::optional<SavingPace> pace_;   // with state_files
  NamedTensors weights_;             // in host memory, after the last phase; empty: unchanged
  Clock::time_point others_asked_;   // when this rank last checked whether another was told to stop
  std::int64_t furthest_ = 0;        // largest inputs_until_ of the scored batches
  std::vector<bool> scored_before_;  // by batch: in an earlier phase, or before a stop
  std::vector<ScoringSlot> slots_;   // during run()
  ScoreSums logged_{at::kCPU};       // rank 0's scored batches
  Clock::time_point began_;
};

}  // namespace tg
