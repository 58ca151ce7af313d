#include "commands/quantize.h"

#include "base/error.h"
#include "comm/communicator.h"
#include "commands/join.h"
#include "commands/model_file.h"
#include "train/artifact_files.h"
#include "train/log_sink.h"
#include "train/model_files.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt quantize: writes the quantised artifact of a trained model.\n"
    "\n"
    "  train_gpt quantize --init-from FILE --out FILE [--artifact int6|int8_zlib]\n"
    "\n"
    "Reads a model (.safetensors, .pt) with the settings of the config.json beside it, and prints\n"
    "the artifact's size and that of artifact and code together, as a run does at its end.\n"
    "\n";

struct QuantizeOptions {
  std::string out;

  template <class V>
  void visit(V&& v) {
    v("out", out, anything, "the artifact's file");
  }
};

}  // namespace

std::vector<Entry> quantize_options() {
  static QuantizeOptions defaults;
  return entries_of(defaults);
}

void quantize_command(int argc, const char* const* argv) {
  QuantizeOptions options;
  const auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  const auto& settings = parsed->settings;
  const auto& from = settings.runtime.init_from;
  REQUIRE(!options.out.empty(), ExitCode::usage,
          "train_gpt quantize: expected --out FILE, found none; see train_gpt quantize --help");
  REQUIRE(settings.runtime.artifact != Artifact::none, ExitCode::usage,
          "ARTIFACT=none: expected int6 or int8_zlib");
  REQUIRE(artifact_of(from) == Artifact::none, ExitCode::usage,
          "{}: expected a model that is not quantised (.safetensors, .pt), found an artifact",
          from);
  const auto joined = join_alone(settings, parsed->origins, SettingsUse::weights, "quantize");
  const auto parameters = stored_weights(settings, joined.machine.device);
  require_finite(parameters);
  LogSink(settings, joined.machine, 1)(write_artifact(parameters, settings, options.out));
}

}  // namespace tg
