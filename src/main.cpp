// Parses, joins, runs, and turns an exception into one line and an exit code.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/error_file.h"
#include "base/log.h"
#include "base/program.h"
#include "comm/communicator.h"
#include "config/check.h"
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
  if (launch.rank == 0) {
    for (const auto& notice : notices(settings, origins)) warn_line(notice);
  }

  explaining_out_of_memory(settings, [&] {
    const auto machine = set_up_machine(settings.runtime, settings.model, launch.local_rank);
    const double timeout_s = settings.runtime.comm_timeout_s;
    const bool chosen = origins.at("comm_timeout_s") != "default";
    const auto meeting = meet(launch, chosen ? timeout_s : kStartTime_s);
    require_same(meeting, launch,
                 experiment_text(settings) + resolved_text(machine) + program_version());
    const OutputDir output_dir(settings, meeting, launch);
    Communicator communicator(meeting, launch, machine.device, timeout_s,
                              output_dir.path() + "/comm_traces");
    if (launch.world_size > 1) {
      log_info("ranks:{} by:{} meeting:{} collectives:{}", launch.world_size, launch.launcher,
               meeting.place, machine.device.is_cuda() ? "nccl" : "gloo");
    }
    Trainer(settings, machine, output_dir.path(), origins, communicator).run();
  });
}

// What is left of a broken group of ranks could wait for ever in its destructors, so none run.
[[noreturn]] void end(ExitCode code) {
  if (code == ExitCode::unavailable) std::this_thread::sleep_for(kLostPeerDelay);
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  const int code = tg::exit_code_of([&] { tg::run(argc, argv); });
  if (code != 0) tg::end(static_cast<tg::ExitCode>(code));
}
