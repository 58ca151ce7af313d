// Parses, joins and runs; an exception ends the program with one line and an exit code.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <csignal>
#include <optional>

#include "base/error.h"
#include "base/error_file.h"
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

// What settings with "auto" come to here: ranks on unlike hosts would differ.
std::string resolved_text(const Machine& machine) {
  return fmt::format("resolved DEVICE={}\nresolved COMPUTE_DTYPE={}\n",
                     c10::DeviceTypeName(machine.device.type(), /*lower_case=*/true),
                     c10::toString(machine.compute));
}

// What LibTorch throws where our own code catches nothing: on its own threads, such as the
// watchdog of NCCL's collectives, or for memory.
std::optional<Error> explain(const Settings& settings, const std::exception& error) {
  const auto line = out_of_memory_line(error);
  if (!line.empty()) return explain_out_of_memory(settings, line);
  if (dynamic_cast<const c10::DistError*>(&error) == nullptr) return {};
  return Error(ExitCode::unavailable,
               fmt::format("a collective failed ({}); the rank that failed first says why",
                           first_line(error.what())));
}

void run(int argc, char** argv) {
  set_error_file(read_error_file());
  auto [settings, origins, help, version] = parse_settings(argc, argv);
  if (help || version) {
    fmt::print("{}", help ? help_text() : version_text());
    return;
  }
  // A reader of standard output that goes away (`| head`) ends no training; the log file goes on.
  std::signal(SIGPIPE, SIG_IGN);
  const auto launch = read_launch();
  set_log_rank(launch.rank);
  if (launch.launcher != "single") turn_off_progress();
  check_settings(settings, launch.world_size);
  set_library_environment(settings, launch);
  if (launch.rank == 0) {
    for (const auto& notice : notices(settings, origins)) warn_line(notice);
  }

  explain_errors_with([known = settings](const auto& error) { return explain(known, error); });
  const auto machine = set_up_machine(settings.runtime, settings.model, launch);
  const double timeout_s = settings.runtime.comm_timeout_s;
  const bool chosen = origins.at("comm_timeout_s") != "default";
  const auto meeting = join_rendezvous(launch, chosen ? timeout_s : kStartTime_s);
  require_same(meeting, launch,
               experiment_text(settings) + resolved_text(machine) + program_version());
  const OutputDir output_dir(settings, meeting, launch);
  Communicator communicator(meeting, launch, machine.device, timeout_s,
                            output_dir.path() + "/comm_traces");
  if (launch.world_size > 1) {
    log_info("ranks:{} by:{} meeting:{} collectives:{}", launch.world_size, launch.launcher,
             meeting.endpoint, machine.device.is_cuda() ? "nccl" : "gloo");
  }
  Trainer(settings, machine, output_dir.path(), origins, communicator).run();
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  return tg::run_program([&] { tg::run(argc, argv); });
}
