#pragma once
// Final scores of a model's weights, from a run's artifact or from a file.
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"
#include "data/token_source.h"
#include "eval/scores/split_tokens.h"
#include "eval/scores/validation.h"
#include "eval/ttt/phased_ttt_state.h"
#include "process/machine.h"
#include "run_log/events.h"
#include "train/run_parts.h"

namespace tg {

class FinalScores {
 public:
  using Emit = std::function<void(const RunEvent&)>;

  // `tokens`: the validation split. ARTIFACT is the kind of file that the parameters were read
  // from; it sets the prefix of score names: final_int6_, final_int8_zlib_, final_gptq_ or final_.
  // All references must outlive this object.
  FinalScores(const Settings& settings, const Machine& machine, Communicator& communicator,
              ModelParts& weights, const TokenSource& tokens, Validation& validation, Emit emit);

  // Receives the per-token losses of a score, nll [n] fp32 on the device: the loss of the token
  // after each position of the split, NaN where this rank did not score it.
  using OnTokenLosses = std::function<void(const std::string& score, const at::Tensor& nll)>;
  // Sets a callback for each later score. Collective.
  void on_token_losses(OnTokenLosses call) { on_token_losses_ = std::move(call); }

  // Scores whole sequences of EVAL_SEQ_LEN. This function and those below are collective, and emit
  // one FinalScored per score.
  void score_sequences();
  // Scores sliding windows with a stride of EVAL_STRIDE, and of 64 tokens. Does nothing if
  // EVAL_STRIDE is 0 or at least the sequence length.
  void score_windows();
  // Runs test-time training if TTT_ENABLED, which changes the parameters. `fake_quant`: whether QAT
  // has begun.
  void train_and_score(bool fake_quant);
  // Runs phased test-time training if PHASED_TTT_ENABLED, which changes the parameters. Requires
  // BOS_ID from resolve_bos_id(). `state_files`: where this rank saves its state, between batches
  // and at a caught stop signal, and resumes from; null: no saving. Also throws stopped.
  void score_and_train_in_phases(std::shared_ptr<const TttStateFiles> state_files = {});
  // Scores without adaptation, as a baseline of phased test-time training: each document by itself,
  // in windows of TTT_EVAL_SEQ_LEN.
  void score_documents();

 private:
  // The validation split, read on first use.
  const SplitTokens& tokens();
  // Completes `event` with the score of `score(nll)` and emits it; nll as for OnTokenLosses, or
  // undefined.
  void emit_score(FinalScored event, auto score);
  void emit_score(const std::string& name, std::int64_t stride, auto score);

  const Settings& settings_;
  const Machine& machine_;
  Communicator& communicator_;
  ModelParts& weights_;
  const TokenSource& source_;
  Validation& validation_;
  const Emit emit_;
  OnTokenLosses on_token_losses_;
  std::optional<SplitTokens> tokens_;
};

}  // namespace tg
