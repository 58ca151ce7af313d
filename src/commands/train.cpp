#include "commands/train.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <csignal>
#include <optional>

#include "base/error.h"
#include "base/exhausted.h"
#include "base/first_line.h"
#include "base/log.h"
#include "base/program.h"
#include "comm/communicator.h"
#include "config/check.h"
#include "config/environment.h"
#include "config/launch.h"
#include "config/parse.h"
#include "config/resolved.h"
#include "config/unbuilt.h"
#include "train/machine.h"
#include "train/out_of_memory.h"
#include "train/output_dir.h"
#include "train/trainer.h"

namespace tg {
namespace {

// The settings whose value is "auto", as this rank resolved them: ranks on unlike hosts may differ.
std::string resolved_text(const Machine& machine) {
  return fmt::format("resolved DEVICE={}\nresolved COMPUTE_DTYPE={}\n",
                     c10::DeviceTypeName(machine.device.type(), /*lower_case=*/true),
                     c10::toString(machine.compute));
}

// Exceptions of LibTorch: of its own threads, such as NCCL's watchdog, and of its allocators.
std::optional<Error> explain(const Settings& settings, const std::exception& error) {
  const auto line = out_of_memory_line(error);
  if (!line.empty()) return explain_out_of_memory(settings, line);
  if (dynamic_cast<const c10::DistError*>(&error) == nullptr) return {};
  return Error(ExitCode::unavailable,
               fmt::format("a collective failed ({}); the rank that failed first says why",
                           first_line(error.what())));
}

}  // namespace

void train_command(int argc, const char* const* argv) {
  auto [settings, origins, help, version] = parse_settings(argc, argv);
  if (help || version) {
    fmt::print("{}", help ? help_text() : version_text());
    return;
  }
  // A closed standard output (`| head`) is no reason to end training: log.txt is still written.
  std::signal(SIGPIPE, SIG_IGN);
  const auto launch = read_launch();
  set_log_rank(launch.rank);
  if (launch.launcher != "single") turn_off_progress();
  check_settings(settings, launch.world_size);
  set_library_environment(settings.runtime, launch);
  if (launch.rank == 0) {
    for (const auto& notice : notices(settings, origins)) warn_line(notice);
  }

  explain_errors_with([known = settings](const auto& error) { return explain(known, error); });
  const auto machine = set_up_machine(settings.runtime, settings.model, launch);
  const double timeout_s = settings.runtime.comm_timeout_s;
  const bool chosen = origins.at("comm_timeout_s") != "default";
  const auto rendezvous = join_rendezvous(launch, chosen ? timeout_s : kStartTime_s);
  require_same(rendezvous, launch,
               experiment_text(settings) + resolved_text(machine) + program_version());
  const OutputDir output_dir(settings, rendezvous, launch);
  Communicator communicator(rendezvous, launch, machine.device, timeout_s,
                            output_dir.path() + "/comm_traces");
  const RanksJoined ranks{.world_size = launch.world_size,
                          .launcher = launch.launcher,
                          .endpoint = rendezvous.endpoint,
                          .collectives = machine.device.is_cuda() ? "nccl" : "gloo"};
  Trainer(settings, machine, output_dir.path(), origins, ranks, communicator).run();
}

}  // namespace tg
