#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/elapsed.h"
#include "eval/base_training.h"
#include "eval/document_scorer.h"
#include "eval/eta.h"
#include "eval/phased_ttt_state.h"
#include "eval/scoring_slot.h"

namespace tg {

struct PhasedTttOptions {
  PhasedTttConfig config{};
  std::int64_t seed = 0;       // of the adapters' A
  std::int64_t bos_id = 0;     // begins a document
  std::int64_t seq_len = 0;    // EVAL_SEQ_LEN, of base training
  bool record_quirks = false;  // joined documents have two BOS between them
  bool scale_loss = false;     // in fp16
  // Whether this rank was told to stop, asked before each batch; empty: never.
  std::function<bool()> stop_requested{};
  // Of this rank's state after a stop, a file of its own; needed with stop_requested.
  std::string state_path{};
};

// Phased test-time training: scores the documents of the split in batches, chunk by chunk, each
// chunk teaching low-rank adapters of its document once it is scored. After some batches, the
// phases, documents that are scored also train the model's parameters. So every token is scored
// once, before any update that used it, and no score depends on later tokens of its document.
// Ranks claim the batches of a phase from a shared counter and take part in every phase's training,
// so that which documents train the weights, and when, is the same on any number of ranks. Only
// which of the earlier batches' A a batch begins with depends on who claimed what.
//
// With TTT_CONCURRENT_BATCHES > 1 a rank has as many batches in flight, each in a slot that is to
// the others as ranks are. One host thread scores a chunk of the slot that has scored least, on its
// stream, then one of the next, so that small kernels of one batch run beside another's. On one
// rank who scores what depends on the documents alone.
//
// Once a rank is told to stop, all of them end after their batches and save what they have. A run
// that finds these files goes on from there, on one rank with the bits of a run that was not
// stopped, and removes them at its end.
class PhasedTtt {
 public:
  // All references must outlive this.
  PhasedTtt(Gpt& model, const ParameterTable& table, const SplitTokens& tokens,
            const PhasedTttOptions& options, at::Device device, Communicator& communicator);

  void save_token_losses(at::Tensor nll) { scorer_.save_token_losses(std::move(nll)); }
  // Changes the parameters. Logs the reference implementation's lines. Collective: the same score
  // on every rank. Errors: stopped, on every rank; those of the state's files.
  Score run();

 private:
  // Those of the unscored batches before batches_[end] that this rank claims; waits until the other
  // ranks have scored theirs. Errors: stopped.
  void score_batches(std::int64_t end, const EtaLine& eta);
  // Of the slot's batch, which is scored.
  void record(const ScoringSlot& slot, const EtaLine& eta);
  // Those of the batches before the first that no earlier phase or run has scored, of a row.
  std::int64_t inputs_scored_before() const;
  // Of all slots.
  ScoreSums sums() const;
  void train_on(const TttPhase& phase);
  bool told_to_stop() const;
  // What this rank goes on from: "phases" is a copy, as are some of the slots', to all others can
  // be written.
  NamedTensors state() const;
  // On every rank at once.
  [[noreturn]] void save_and_stop() const;
  void resume();
  void remove_state() const;
  // Whether any rank has scored it, of each batch. Collective.
  std::vector<bool> scored_by_all() const;
  // Of the weights as they are.
  Metadata origin() const;
  void log_plan() const;
  // Waits for the slot's work.
  void log_batch(const ScoringSlot& slot);

  Gpt& model_;
  const ParameterTable& table_;
  const PhasedTttOptions options_;
  const at::Device device_;
  Communicator& communicator_;
  DocumentScorer scorer_;
  const at::Tensor tokens_;  // [predictions + 1] uint16 in host memory
  std::int64_t documents_, prefix_documents_;
  std::vector<DocumentBatch> batches_;      // in the order of scoring
  std::vector<std::int64_t> inputs_until_;  // each of them is scored, of a row
  std::vector<std::int64_t> boundaries_;
  std::vector<TttPhase> phases_;
  std::size_t phases_done_ = 0;
  at::Tensor scored_;          // [batches] fp64 in host memory: 1 where this rank has scored it
  Metadata origin_;            // when this run began, with a state_path
  std::int64_t furthest_ = 0;  // of inputs_until_, of batches scored to their end
  std::vector<bool> scored_before_;  // of each batch: in an earlier phase, or before a stop
  std::vector<ScoringSlot> slots_;   // while it runs
  ScoreSums logged_{at::kCPU};       // rank 0's, of its batches that are scored
  Clock::time_point began_;
};

}  // namespace tg
