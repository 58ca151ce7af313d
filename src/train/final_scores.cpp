#include "train/final_scores.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/elapsed.h"
#include "base/stop_signal.h"
#include "config/derived.h"
#include "config/fixed_settings.h"
#include "eval/scores/document_windows.h"
#include "eval/scores/window_scorer.h"
#include "eval/ttt/phased_ttt.h"
#include "eval/ttt/test_time_training.h"
#include "train/peer_waits.h"

namespace tg {

namespace {

std::string prefix_of(Artifact artifact) {
  return artifact == Artifact::none ? "final_" : fmt::format("final_{}_", choice_name(artifact));
}

PhasedTttConfig phased_ttt_config(const Settings& settings) {
  auto config = settings.phased_ttt;
  config.ttt_eval_seq_len = adaptation_row(settings);
  return config;
}

EvalMode eval_mode(const Settings& settings) {
  return {.graphs = replays_evaluations(settings), .measure_memory = measures_memory(settings)};
}

}  // namespace

FinalScores::FinalScores(const Settings& settings, const Machine& machine,
                         Communicator& communicator, ModelParts& weights, const TokenSource& tokens,
                         Validation& validation, Emit emit)
    : settings_(settings),
      machine_(machine),
      communicator_(communicator),
      weights_(weights),
      source_(tokens),
      validation_(validation),
      emit_(std::move(emit)) {}

const SplitTokens& FinalScores::tokens() {
  if (!tokens_) {
    const PeerWatch::Work reading(communicator_.watch(), "reading the validation split");
    const auto longest = std::max(eval_length(settings_), settings_.run.train_seq_len.last());
    const auto& bytes = validation_.bytes();
    tokens_.emplace(source_, validation_.tokens(), longest, bytes ? &*bytes : nullptr,
                    validation_.segments_bos(), machine_.device);
  }
  return *tokens_;
}

void FinalScores::emit_score(FinalScored event, auto score) {
  wait_for_device(communicator_, machine_.device);
  const auto began = Clock::now();
  at::Tensor nll;
  if (on_token_losses_)
    // The strided order reads across the ends of shards.
    nll = at::full({source_.tokens_up_to(2 * validation_.tokens() + 1) - 1}, NAN,
                   at::TensorOptions(machine_.device).dtype(at::kFloat));
  const auto scored = score(nll);
  event.loss = scored.loss;
  event.unmasked_loss = scored.unmasked_loss;
  event.bpb = scored.bpb;
  event.eval_ms = milliseconds_since(began);
  emit_(event);
  if (on_token_losses_) on_token_losses_(event.exact_line ? event.line_name : event.name, nll);
}

void FinalScores::emit_score(const std::string& name, std::int64_t stride, auto score) {
  emit_score({.line_name = name, .name = name + "_exact", .stride = stride, .exact_line = true},
             score);
}

void FinalScores::score_sequences() {
  const auto artifact = settings_.runtime.artifact;
  const auto score = [&](const at::Tensor& nll) {
    return validation_.score(weights_.model, eval_length(settings_), {}, nll);
  };
  // As in the last record's script.
  if (artifact == Artifact::gptq)
    return emit_score({.line_name = "diagnostic quantized", .name = "quantized", .digits = 8},
                      score);
  const char* const name = artifact == Artifact::none ? "validation" : "roundtrip";
  emit_score(prefix_of(artifact) + name, 0, score);
}

void FinalScores::score_windows() {
  const auto stride = settings_.run.eval_stride, length = eval_length(settings_);
  if (stride == 0 || stride >= length) return;
  const auto score = [&](std::int64_t by, const std::string& suffix) {
    const auto& split = tokens();
    const WindowOptions windows{
        .length = length, .stride = by, .rescore_tail = settings_.runtime.record_quirks};
    emit_score(prefix_of(settings_.runtime.artifact) + "sliding_window" + suffix, by,
               [&](const at::Tensor& nll) {
                 return sliding_window_score(weights_.model, split, windows, machine_.device,
                                             eval_mode(settings_), communicator_, nll);
               });
  };
  score(stride, "");
  constexpr std::int64_t kUsualStride = 64;
  if (stride != kUsualStride && kUsualStride < length) score(kUsualStride, "_s64");
}

void FinalScores::train_and_score(bool fake_quant) {
  if (!settings_.ttt.ttt_enabled) return;
  const auto& split = tokens();
  const auto length = settings_.run.train_seq_len.last();
  const auto eval_stride = settings_.run.eval_stride;
  const auto stride = eval_stride > 0 && eval_stride < length ? eval_stride : length;
  const bool quirks = settings_.runtime.record_quirks;
  const TttOptions options{
      .windows = {.length = length, .stride = stride, .rescore_tail = quirks, .least = stride},
      .config = settings_.ttt,
      .record_quirks = quirks,
      .fake_quant = quirks && fake_quant,
      .scale_loss = machine_.compute == at::kHalf,
      .mode = eval_mode(settings_)};
  TestTimeTraining training(weights_.model, weights_.parameters, split, options, machine_.device,
                            communicator_);
  emit_score("legal_ttt", 0, [&](const at::Tensor& nll) {
    training.save_token_losses(nll);
    return training.run();
  });
}

void FinalScores::score_documents() {
  const auto name = prefix_of(settings_.runtime.artifact) + "documents";
  emit_score({.line_name = name, .name = name, .digits = 8}, [&](const at::Tensor& nll) {
    return tg::score_documents(weights_.model, tokens(), phased_ttt_config(settings_),
                               settings_.data.bos_id.value, machine_.device, communicator_, nll);
  });
}

void FinalScores::score_and_train_in_phases(std::shared_ptr<const TttStateFiles> state_files) {
  if (!settings_.phased_ttt.phased_ttt_enabled) return;
  const auto artifact = settings_.runtime.artifact;
  const auto name =
      artifact == Artifact::gptq ? "quantized_ttt_phased" : prefix_of(artifact) + "ttt_phased";
  PhasedTttOptions options{.config = phased_ttt_config(settings_),
                           .seed = settings_.data.seed,
                           .bos_id = settings_.data.bos_id.value,
                           .seq_len = eval_length(settings_),
                           .record_quirks = settings_.runtime.record_quirks,
                           .scale_loss = machine_.compute == at::kHalf};
  if (state_files) {
    options.state_files = std::move(state_files);
    options.settings =
        fixed_settings(settings_as_computed(settings_, machine_), communicator_.world_size());
    options.stop_requested = [] { return stop_signal() != 0; };
  }
  PhasedTtt phases(weights_.model, weights_.parameters, tokens(), options, machine_.device,
                   communicator_);
  emit_score({.line_name = name, .name = name, .digits = 8}, [&](const at::Tensor& nll) {
    phases.save_token_losses(nll);
    return phases.run();
  });
}

}  // namespace tg
