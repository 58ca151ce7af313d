#pragma once
// What a model is judged by: the scores of its weights, of a run's artifact as of a file.
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"
#include "data/token_source.h"
#include "eval/phased_ttt_state.h"
#include "eval/split_tokens.h"
#include "eval/validation.h"
#include "process/machine.h"
#include "run_log/events.h"
#include "train/run_parts.h"

namespace tg {

class FinalScores {
 public:
  using Emit = std::function<void(const RunEvent&)>;

  // `tokens`: the validation split. ARTIFACT is what the parameters were read from, which gives the
  // scores their names: final_int6_, final_int8_zlib_, final_gptq_ or final_. All references must
  // outlive this.
  FinalScores(const Settings& settings, const Machine& machine, Communicator& communicator,
              ModelParts& weights, const TokenSource& tokens, Validation& validation, Emit emit);

  // What each prediction of a score lost, nll [n] fp32 on the device: of the token after each place
  // of the split, NaN where this rank did not score it.
  using OnTokenLosses = std::function<void(const std::string& score, const at::Tensor& nll)>;
  // From now on calls this with each score. Collective.
  void on_token_losses(OnTokenLosses call) { on_token_losses_ = std::move(call); }

  // Whole sequences of EVAL_SEQ_LEN. Collective, as the others; each emits a FinalScored a score.
  void score_sequences();
  // The sliding windows of EVAL_STRIDE, and of 64 tokens; nothing where it is 0 or the row's
  // length.
  void score_windows();
  // With TTT_ENABLED: test-time training, which changes the parameters. `fake_quant`: QAT has
  // begun.
  void train_and_score(bool fake_quant);
  // With PHASED_TTT_ENABLED: phased test-time training, which changes the parameters. Precondition:
  // BOS_ID is resolved (resolve_bos_id). `state_files`: where this rank's state is saved between
  // batches and at a stop signal, once signals are caught, and from where the next call goes on;
  // null: nowhere. Also throws Error(stopped).
  void score_and_train_in_phases(std::shared_ptr<const TttStateFiles> state_files = {});
  // What that would score if nothing learned: each document by itself, in windows of
  // TTT_EVAL_SEQ_LEN.
  void score_documents();

 private:
  void score_windows(std::int64_t stride, const std::string& suffix);
  // Read when first needed.
  const SplitTokens& tokens();
  // `event` without a score. `score(nll)`: nll as for OnTokenLosses, or undefined.
  template <class ScoreIt>
  void emit_score(FinalScored event, ScoreIt score);
  template <class ScoreIt>
  void emit_score(const std::string& name, std::int64_t stride, ScoreIt score);

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
