#include <functional>

#include "base/error.h"
#include "comm/communicator.h"
#include "commands/commands.h"
#include "commands/join.h"
#include "commands/model_file.h"
#include "data/splits.h"
#include "data/vocabulary.h"
#include "files/atomic_file.h"
#include "model_io/artifact_files.h"
#include "model_io/model_files.h"
#include "model_io/model_path.h"
#include "run_log/log_sink.h"
#include "train/calibration.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt quantize: writes the quantised artifact of a trained model.\n"
    "\n"
    "  train_gpt quantize --init-from MODEL --out FILE [--artifact int6|int8_zlib]\n"
    "  train_gpt quantize --init-from MODEL --out FILE --calibrate DATA [--bits N]\n"
    "\n"
    "Prints the sizes of the artifact alone and with the code, as a run does at its end. With\n"
    "--calibrate DATA quantises by GPTQ (ARTIFACT=gptq): each weight's rounding error is\n"
    "compensated in the weights that are not yet rounded, by means of the Hessian of the\n"
    "activations on DATA, and the matrices with the largest errors get low-rank corrections\n"
    "(LQER). DATA is any DATA_PATH, such as training shards or text, preferably the model's\n"
    "training data.\n"
    "\n";

// Applies --bits: sets the clip thresholds that minimise the mean squared error of quantising a
// normal distribution to so many bits (Max 1960), unless a setting gives one. The settings'
// defaults are wider, for small files: their outermost levels stay empty.
void set_bits(GptqConfig& gptq, const Origins& origins, std::int64_t bits) {
  constexpr double kSigmas[] = {1.224, 1.953, 2.474, 2.897, 3.272, 3.607, 3.918};
  gptq.matrix_bits = gptq.embed_bits = bits;
  const auto set = [&](const char* name, double& sigmas) {
    if (!is_given(origins, name)) sigmas = kSigmas[bits - 2];
  };
  set("matrix_clip_sigmas", gptq.matrix_clip_sigmas);
  set("embed_clip_sigmas", gptq.embed_clip_sigmas);
  set("mlp_clip_sigmas", gptq.mlp_clip_sigmas);
  set("attn_clip_sigmas", gptq.attn_clip_sigmas);
}

// Applies the options: --calibrate selects ARTIFACT=gptq.
void apply_options(Settings& settings, const Origins& origins, const QuantizeOptions& options) {
  auto& artifact = settings.runtime.artifact;
  REQUIRE(artifact != Artifact::none, ExitCode::usage,
          "ARTIFACT=none: expected int6, int8_zlib or, with --calibrate DATA, gptq");
  const bool calibrates = !options.calibrate.empty();
  REQUIRE(calibrates || artifact != Artifact::gptq, ExitCode::usage,
          "ARTIFACT=gptq needs tokens to calibrate on (expected --calibrate DATA, found none)");
  REQUIRE(calibrates || options.bits.automatic, ExitCode::usage,
          "--bits needs --calibrate DATA: int6 and int8_zlib have their own");
  if (!calibrates) return;
  REQUIRE(artifact == Artifact::gptq || !is_given(origins, "artifact"), ExitCode::usage,
          "--calibrate and ARTIFACT={}: expected gptq", choice_name(artifact));
  artifact = Artifact::gptq;
  settings.data.data_path = options.calibrate;
  settings.data.byte_counts = ByteCountSource::automatic;  // byte counts are not used here
  if (!options.bits.automatic) set_bits(settings.gptq, origins, options.bits.value);
}

void write_calibrated(Settings& settings, const Machine& machine, const std::string& path,
                      LogSink& log) {
  require_compressor(settings.gptq.compressor);
  resolve_bos_id(settings);
  Communicator alone;
  require_unquantized(choose_model(settings, alone));
  const auto splits = open_training(settings.data, static_cast<int>(settings.model.vocab_size),
                                    tokenization_options(machine, alone));
  ModelParts weights(settings, machine, alone, ModelUse::inference);
  auto hessians = calibrate(settings, machine, alone, weights, *splits.train, std::ref(log));
  const auto model = quantize_by_gptq(weights.parameters, std::move(hessians), settings.gptq,
                                      settings.runtime.record_quirks);
  log(model.event);
  log(write_artifact(model, weights.record, settings.gptq.compressor, path));
}

}  // namespace

void quantize_command(int argc, const char* const* argv) {
  QuantizeOptions options;
  auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  auto& settings = parsed->settings;
  require_flag(!options.out.empty(), "quantize", "--out FILE");
  apply_options(settings, parsed->origins, options);
  { const AtomicFile probe(options.out); }  // fails before the long calibration
  const bool calibrates = settings.runtime.artifact == Artifact::gptq;
  const auto joined =
      join_alone(settings, parsed->origins,
                 calibrates ? SettingsUse::sampling : SettingsUse::weights, "quantize");
  LogSink log(settings, 1);
  if (calibrates) return write_calibrated(settings, joined.machine, options.out, log);
  Communicator alone;
  choose_model(settings, alone);
  const auto [parameters, record] = stored_model(settings, joined.machine.device);
  log(write_artifact(parameters, record, settings, options.out));
}

}  // namespace tg
