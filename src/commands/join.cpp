#include "commands/join.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "base/stop_signal.h"
#include "base/strings.h"
#include "config/environment.h"
#include "config/resolved.h"
#include "process/out_of_memory.h"

namespace tg {
namespace {

// Returns the "auto" settings as resolved by this rank: ranks on different hosts may differ.
std::string resolved_text(const Machine& machine) {
  return fmt::format("resolved DEVICE={}\nresolved COMPUTE_DTYPE={}\n",
                     c10::DeviceTypeName(machine.device.type(), /*lower_case=*/true),
                     machine.compute_name);
}

// Explains LibTorch's exceptions: of its own threads, such as NCCL's watchdog, and of its
// allocators.
std::optional<Error> explain(const Settings& settings, const std::exception& error) {
  const auto line = out_of_memory_line(error);
  if (!line.empty()) return explain_out_of_memory(settings, line);
  if (dynamic_cast<const c10::DistError*>(&error) == nullptr) return {};
  return Error(ExitCode::unavailable,
               fmt::format("a collective failed ({}); the rank that failed first says why",
                           first_line(error.what())));
}

}  // namespace

RanksJoined Joined::event() const {
  return {.world_size = launch.world_size,
          .launcher = launch.launcher,
          .endpoint = rendezvous.endpoint,
          .collectives = machine.device.is_cuda() ? "nccl" : "gloo"};
}

Joined join_ranks(const Settings& settings, const Origins& origins, SettingsUse use,
                  const std::vector<std::string>& notices) {
  Joined joined;
  joined.launch = read_launch();
  const auto& launch = joined.launch;
  set_log_rank(launch.rank);
  if (launch.launcher != "single") turn_off_progress();
  check_settings(settings, launch.world_size, use);
  set_library_environment(settings.runtime, launch);
  // Not for a single rank under srun: its parent may be a shell, which it may outlive.
  if (launch.world_size > 1 || launch.launcher == "openmpi") stop_with_parent();
  if (launch.rank == 0) {
    for (const auto& notice : notices) warn_line(notice);
  }

  explain_errors_with([known = settings](const auto& error) { return explain(known, error); });
  joined.machine = set_up_machine(settings.runtime, settings.model, launch);
  if (launch.rank == 0 && settings.runtime.memory_limit_gb > 0 &&
      settings.runtime.device == DeviceChoice::automatic && !joined.machine.device.is_cuda()) {
    warn_line("MEMORY_LIMIT_GB has no effect: there is no GPU, and it limits a GPU's memory");
  }
  const bool chosen = is_given(origins, "comm_timeout_s");
  joined.rendezvous =
      join_rendezvous(launch, chosen ? settings.runtime.comm_timeout_s : kStartTime_s);
  require_same(joined.rendezvous, launch,
               experiment_text(settings) + resolved_text(joined.machine) + program_version());
  return joined;
}

Joined join_alone(const Settings& settings, const Origins& origins, SettingsUse use,
                  const std::string& command) {
  const auto ranks = read_launch().world_size;
  REQUIRE(ranks == 1, ExitCode::usage,
          "train_gpt {} runs in one process (expected 1 rank, found {}); start it without mpirun, "
          "torchrun or srun",
          command, ranks);
  return join_ranks(settings, origins, use);
}

}  // namespace tg
