#include "train/final_scores.h"

#include <chrono>

#include "base/log.h"
#include "config/derived.h"
#include "eval/sliding_window.h"
#include "eval/test_time_training.h"
#include "train/artifact_files.h"
#include "train/peer_waits.h"

namespace tg {

namespace {

struct ArtifactNames {
  const char* file;
  const char* score;  // prefix of the scores' names
};
ArtifactNames names_of(Artifact artifact) {
  switch (artifact) {
    case Artifact::int6:
      return {"final_model.int6.ptz", "final_int6_"};
    case Artifact::int8_zlib:
      return {"final_model.int8.ptz", "final_int8_zlib_"};
    case Artifact::none:
      break;
  }
  return {"", "final_"};
}

}  // namespace

FinalScores::FinalScores(const Settings& settings, const Machine& machine,
                         Communicator& communicator, RunParts& parts, Report& report,
                         const std::string& output_dir)
    : settings_(settings),
      machine_(machine),
      communicator_(communicator),
      parts_(parts),
      report_(report),
      output_dir_(output_dir) {}

void FinalScores::run(bool fake_quant) {
  const auto artifact = settings_.runtime.artifact;
  if (artifact != Artifact::none) {
    const auto path = output_dir_ + "/" + names_of(artifact).file;
    write_artifact(path);
    load_artifact(parts_.weights.parameters, path, communicator_);
    score_sequences();
  }
  const auto stride = settings_.run.eval_stride, length = eval_length(settings_);
  const bool slides = stride > 0 && stride < length;
  if (!slides && !settings_.ttt.ttt_enabled) return;
  const auto tokens = [&] {
    const PeerWatch::Work reading(communicator_.watch(), "reading the validation split");
    return SplitTokens(*parts_.tokens.val, parts_.validation.tokens(),
                       std::max(length, settings_.run.train_seq_len), machine_.device);
  }();
  const auto bytes = device_byte_table(settings_, machine_.device);
  const auto* const table = bytes ? &*bytes : nullptr;
  if (slides) {
    score_windows(tokens, table, stride, "");
    constexpr std::int64_t kUsualStride = 64;
    if (stride != kUsualStride && kUsualStride < length) {
      score_windows(tokens, table, kUsualStride, "_s64");
    }
  }
  if (settings_.ttt.ttt_enabled) train_and_score(tokens, table, fake_quant);
}

void FinalScores::write_artifact(const std::string& path) {
  if (communicator_.rank() == 0) {
    const PeerWatch::Work writing(communicator_.watch(), "writing " + path);
    report_.emit(ArtifactWritten{
        .path = path,
        .format = settings_.runtime.artifact,
        .stats = save_artifact(parts_.weights.parameters, settings_, path),
        .code_bytes = code_bytes(),
    });
  }
  communicator_.barrier();
}

template <class ScoreIt>
void FinalScores::emit_score(const std::string& name, std::int64_t stride, ScoreIt score) {
  wait_for_device(communicator_, machine_.device);
  const auto began = std::chrono::steady_clock::now();
  const auto scored = score();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - began;
  report_.emit(FinalScored{.line_name = name,
                           .name = name + "_exact",
                           .score = scored,
                           .eval_ms = spent.count(),
                           .stride = stride,
                           .exact_line = true});
}

void FinalScores::score_sequences() {
  emit_score(std::string(names_of(settings_.runtime.artifact).score) + "roundtrip", 0,
             [&] { return parts_.validation.score(parts_.weights.model, eval_length(settings_)); });
}

void FinalScores::score_windows(const SplitTokens& tokens, const DeviceByteTable* bytes,
                                std::int64_t stride, const std::string& suffix) {
  const auto name =
      std::string(names_of(settings_.runtime.artifact).score) + "sliding_window" + suffix;
  emit_score(name, stride, [&] {
    return sliding_window_score(parts_.weights.model, tokens, bytes,
                                {.length = eval_length(settings_),
                                 .stride = stride,
                                 .rescore_tail = settings_.runtime.record_quirks},
                                machine_.device, settings_.runtime.graphs, communicator_);
  });
}

void FinalScores::train_and_score(const SplitTokens& tokens, const DeviceByteTable* bytes,
                                  bool fake_quant) {
  const auto length = settings_.run.train_seq_len;
  const auto wanted = settings_.run.eval_stride;
  const auto stride = wanted > 0 && wanted < length ? wanted : length;
  const bool quirks = settings_.runtime.record_quirks;
  const TttOptions options{
      .windows = {.length = length, .stride = stride, .rescore_tail = quirks, .least = stride},
      .config = settings_.ttt,
      .record_quirks = quirks,
      .fake_quant = quirks && fake_quant,
      .graphs = settings_.runtime.graphs};
  TestTimeTraining training(parts_.weights.model, parts_.weights.parameters, tokens, bytes, options,
                            machine_.device, communicator_);
  emit_score("legal_ttt", 0, [&] { return training.run(); });
}

}  // namespace tg
