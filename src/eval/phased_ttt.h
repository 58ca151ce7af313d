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
// Once a rank is told to stop, all of them end after their batch and save what they have. A run
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
  // Those of the batches before the first that no earlier phase or run has scored, of a row.
  std::int64_t inputs_scored_before() const;
  void score(const DocumentBatch& batch, ScoreSums& sums);
  void train_on(const TttPhase& phase);
  bool told_to_stop() const;
  // What this rank goes on from: "phases" and "generator" are copies, to all others can be written.
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
  void log_batch(const DocumentBatch& batch, const Score& own, const Score& running) const;

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
  at::Tensor scored_;  // [batches] fp64 in host memory: 1 where this rank has scored it
  Metadata origin_;    // when this run began, with a state_path
  std::vector<bool> scored_before_;  // of each batch: in an earlier phase, or before a stop
  at::Generator generator_;
  std::optional<AdapterSet> set_;  // of full batches
  ScoreSums sums_;                 // of this rank
  Clock::time_point began_;
};

}  // namespace tg
