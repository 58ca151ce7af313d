#include "commands/quantize.h"

#include "base/error.h"
#include "checkpoint/artifact_files.h"
#include "checkpoint/model_files.h"
#include "checkpoint/model_path.h"
#include "comm/communicator.h"
#include "commands/join.h"
#include "commands/model_file.h"
#include "run_log/log_sink.h"

namespace tg {
namespace {

constexpr const char* help =
    "train_gpt quantize: writes the quantised artifact of a trained model.\n"
    "\n"
    "  train_gpt quantize --init-from MODEL --out FILE [--artifact int6|int8_zlib]\n"
    "\n"
    "Prints the artifact's size and that of artifact and code together, as a run does at its end.\n"
    "\n";

}  // namespace

void quantize_command(int argc, const char* const* argv) {
  QuantizeOptions options;
  auto parsed = parse_model_command(argc, argv, help, entries_of(options));
  if (!parsed) return;
  auto& settings = parsed->settings;
  require_flag(!options.out.empty(), "quantize", "--out FILE");
  REQUIRE(settings.runtime.artifact != Artifact::none, ExitCode::usage,
          "ARTIFACT=none: expected int6 or int8_zlib");
  const auto joined = join_alone(settings, parsed->origins, SettingsUse::weights, "quantize");
  Communicator alone;
  choose_model(settings, alone);
  const auto parameters = stored_weights(settings, joined.machine.device);
  LogSink(settings, 1)(write_artifact(parameters, settings, options.out));
}

}  // namespace tg
