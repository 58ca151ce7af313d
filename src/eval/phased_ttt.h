#pragma once
#include <functional>
#include <memory>
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
  std::int64_t seed = 0;     // of the adapters' A
  std::int64_t bos_id = 0;   // begins a document
  std::int64_t seq_len = 0;  // EVAL_SEQ_LEN, of base training
  // Joined documents have two BOS between them, and each rank batches of its own in base training.
  bool record_quirks = false;
  bool scale_loss = false;  // in fp16
  // Whether this rank was told to stop, asked before each chunk; empty: never.
  std::function<bool()> stop_requested{};
  // This rank's files, in which what it goes on from is saved; null: nowhere. Needed with
  // stop_requested.
  std::shared_ptr<const TttStateFiles> state_files{};
  // What the scores depend on besides the tensors and numbers here: settings by their names.
  Metadata settings{};
  // The largest share of the time that saving between batches takes; a huge one: after each batch.
  double saving_share = 0.02;
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
// With state_files each rank saves what it has between batches, and once a rank is told to stop all
// of them end with the chunk that they score, drop batches in flight or the phase of training, and
// save. A run that finds such files goes on from there, on one rank with the bits of a run that was
// not stopped, and removes them at its end.
class PhasedTtt {
 public:
  // All references must outlive this.
  PhasedTtt(Gpt& model, const ParameterTable& table, const SplitTokens& tokens,
            const PhasedTttOptions& options, at::Device device, Communicator& communicator);

  void save_token_losses(at::Tensor nll) { scorer_.save_token_losses(std::move(nll)); }
  // Scores the documents. Changes the parameters. Logs the reference implementation's lines.
  // Collective: equal on every rank. Throws on every rank Error: stopped; config if two states have
  // scored the same batch; what loading a state throws, and on a stop what saving it throws.
  Score run();

 private:
  // Scores the unscored batches before batches_[end] that this rank claims, and waits until the
  // other ranks have scored theirs. Throws Error(stopped).
  void score_batches(std::int64_t end, const EtaLine& eta);
  // Records the slot's batch, which is scored.
  void record(const ScoringSlot& slot, const EtaLine& eta);
  // Inputs of the rows before the first batch that no earlier phase or run has scored.
  std::int64_t inputs_scored_before() const;
  // Returns the sums over all slots.
  ScoreSums sums() const;
  void train_on(const TttPhase& phase);
  // Returns whether this rank or another one was told to stop, as the ranks agree within a second
  // by `counter`.
  bool asked_to_stop(int counter);
  // Returns what this rank needs to go on; with the weights once a phase has changed them.
  NamedTensors state() const;
  // Called before the weights change: determines the origin, logs the state's place and size.
  void begin_saving();
  // Throws what the files throw.
  void save() const;
  // Saves if it is due. A failure is a warning.
  void save_between_batches();
  // Returns whether the state was saved. A failure is a warning.
  bool try_to_save();
  // Replaces the state with one phase less, if there is one. Collective.
  void save_after_phase();
  // Keeps the model's weights among the tensors to save.
  void keep_weights();
  // Collective. Throws Error(stopped).
  [[noreturn]] void save_and_stop() const;
  // Collective.
  void resume();
  // Returns the number of phases that the state to go on from has done: the largest of which every
  // rank has a state; nothing if there is none. A rank may lack the state of phase 0, if it had not
  // saved yet. Collective.
  std::optional<std::size_t> phases_saved() const;
  void load(std::size_t phases);
  // How often each batch was scored, by all ranks. Collective.
  std::vector<double> times_scored() const;
  // Returns the origin of a state with the present weights.
  Metadata origin() const;
  void log_plan() const;
  // Waits for the slot's work.
  void log_batch(const ScoringSlot& slot);

  Gpt& model_;
  const ParameterTable& table_;
  const PhasedTttOptions options_;
  const at::Device device_;
  Communicator& communicator_;
  const SplitTokens& split_;
  DocumentScorer scorer_;
  const at::Tensor tokens_;  // [predictions + 1] uint16 in host memory
  std::int64_t documents_, prefix_documents_;
  std::vector<DocumentBatch> batches_;      // in the order of scoring
  std::vector<std::int64_t> inputs_until_;  // each of them is scored, of a row
  std::vector<std::int64_t> boundaries_;
  std::vector<TttPhase> phases_;
  std::size_t phases_done_ = 0;
  at::Tensor scored_;  // [batches] fp64 in host memory: 1 where this rank has scored it
  Metadata origin_;    // when this run began, with state_files
  std::optional<SavingPace> pace_;   // with state_files
  NamedTensors weights_;             // in host memory: after the last phase; none: as they were
  Clock::time_point others_asked_;   // when this rank last looked whether another was told to stop
  std::int64_t furthest_ = 0;        // of inputs_until_, of batches scored to their end
  std::vector<bool> scored_before_;  // of each batch: in an earlier phase, or before a stop
  std::vector<ScoringSlot> slots_;   // while it runs
  ScoreSums logged_{at::kCPU};       // rank 0's, of its batches that are scored
  Clock::time_point began_;
};

}  // namespace tg
