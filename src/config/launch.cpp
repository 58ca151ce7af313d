#include "config/launch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "config/types/text.h"

namespace tg {
namespace {

struct Launcher {
  const char* name;
  std::array<const char*, 3> variables;  // rank, world size, local rank
  const char* local_size;                // number of ranks on this host; Slurm: see slurm_tasks
  const char* job;
  const char* start_hint;
  // Else local rank and count are optional: PMI does not define them, but Hydra sets them.
  bool knows_hosts = true;
};

constexpr Launcher launchers[] = {
    {"env",
     {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
     "LOCAL_WORLD_SIZE",
     "TORCHELASTIC_RUN_ID",
     "start each with its RANK and the same MASTER_ADDR and MASTER_PORT, or all with torchrun"},
    {"openmpi",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE",
     "mpirun starts them: see whether they run, and what they say"},
    {"slurm",
     {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
     nullptr,
     "SLURM_JOB_ID",
     "start with srun, which starts a process for each task (one alone: srun --ntasks=1)"},
    {"pmi",
     {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
     "MPI_LOCALNRANKS",
     "PMI_JOBID",
     "mpiexec starts them: see whether they run, and what they say",
     /*knows_hosts=*/false},
};

constexpr const char* kTorchrunHint =
    "torchrun starts them: see that it runs on every machine, and what they say";

int read_int(const char* name, const std::string& text, int low, int high) {
  std::int64_t value = 0;
  REQUIRE(read_value(text, value) && value >= low && value <= high, ExitCode::usage,
          "{}='{}' (environment): expected an integer in [{}, {}]", name, text, low, high);
  return static_cast<int>(value);
}

// Returns the number of ranks on host `node` from Slurm's list for all hosts: "8(x2),4" means 8, 8
// and 4. Nothing if the list is too short.
std::optional<int> slurm_tasks(std::string_view list, std::int64_t node) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    const auto entry = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const auto times = entry.find("(x");
    std::int64_t tasks = 0, hosts = 1;
    if (!read_value(entry.substr(0, times), tasks)) return std::nullopt;
    if (times != std::string_view::npos &&
        !read_value(entry.substr(times + 2, entry.size() - times - 3), hosts)) {
      return std::nullopt;
    }
    if (node < hosts) return static_cast<int>(tasks);
    node -= hosts;
  }
  return std::nullopt;
}

// Returns the number of ranks on this host, if the launcher gives it.
std::optional<int> count_local(const Launcher& launcher, const EnvLookup& lookup, int world_size) {
  if (launcher.local_size != nullptr) {
    const auto count = lookup(launcher.local_size);
    if (!count) return std::nullopt;
    return read_int(launcher.local_size, *count, 1, world_size);
  }
  if (lookup("SLURM_NNODES") == "1") return world_size;
  std::int64_t node = 0;
  if (!read_value(lookup("SLURM_NODEID").value_or("0"), node)) return std::nullopt;
  // The Slurm step's list, else the job's.
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const auto found = slurm_tasks(lookup(name).value_or(""), node);
    if (found && *found >= 1 && *found <= world_size) return found;
  }
  return std::nullopt;
}

// A rank that is alone on its host has local rank 0, also without a variable for it.
bool one_rank_a_host(const Launcher& launcher, const EnvLookup& lookup) {
  return lookup(launcher.variables[1]) == "1" ||
         (launcher.local_size != nullptr && lookup(launcher.local_size) == "1");
}

[[noreturn]] void fail_incomplete(const std::vector<const char*>& present,
                                  const std::vector<const char*>& missing) {
  const auto names = fmt::format("{}", fmt::join(missing, ", "));
  fail(ExitCode::usage, "{} is set, but {} is not; {}", fmt::join(present, ", "), names,
       names == "LOCAL_RANK"
           ? "set it to the rank's number on its host, or LOCAL_WORLD_SIZE=1 where every host "
             "has one process"
           : "start all ranks with torchrun, mpirun or srun, or unset it");
}

// Returns nothing if none of the launcher's variables exists.
std::optional<LaunchInfo> read_ranks(const Launcher& launcher, const EnvLookup& lookup) {
  std::array<std::optional<std::string>, 3> texts;
  std::vector<const char*> present, missing;
  const bool may_lack_local_rank = !launcher.knows_hosts || one_rank_a_host(launcher, lookup);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const char* name = launcher.variables[i];
    texts[i] = lookup(name);
    const bool optional = i == 2 && may_lack_local_rank;
    if (texts[i] && (i < 2 || launcher.knows_hosts)) present.push_back(name);
    if (!texts[i] && !optional) missing.push_back(name);
  }
  if (present.empty()) return std::nullopt;
  if (!missing.empty()) fail_incomplete(present, missing);

  LaunchInfo info;
  info.launcher = launcher.name;
  info.size_variable = launcher.variables[1];
  info.start_hint = launcher.start_hint;
  info.world_size = read_int(launcher.variables[1], *texts[1], 1, 1 << 20);
  info.rank = read_int(launcher.variables[0], *texts[0], 0, info.world_size - 1);
  if (texts[2]) {
    info.local_rank = read_int(launcher.variables[2], *texts[2], 0, info.world_size - 1);
  } else {
    // PMI's ranks are assumed to share a host where nothing says otherwise.
    info.local_rank = one_rank_a_host(launcher, lookup) ? 0 : info.rank;
  }
  const auto local_size = count_local(launcher, lookup, info.world_size);
  info.local_size = local_size.value_or(info.world_size);
  const auto hosts = info.launcher == "slurm" ? lookup("SLURM_NNODES") : std::nullopt;
  if (hosts) {
    info.one_node = *hosts == "1";
  } else if (local_size) {
    info.one_node = *local_size == info.world_size;
  } else {
    // A loopback address, or none with PMI, implies one host.
    const auto address = lookup("MASTER_ADDR").value_or("");
    const bool loopback = address == "localhost" || address.starts_with("127.");
    info.one_node = loopback || (!launcher.knows_hosts && address.empty());
  }
  info.job = lookup(launcher.job).value_or("");
  // Steps of a job, and its next attempt after a requeue, must not share rendezvous files.
  for (const char* part : {"SLURM_STEP_ID", "SLURM_RESTART_COUNT"}) {
    const bool named = info.launcher == "slurm" && !info.job.empty();
    if (named) info.job += "." + lookup(part).value_or("0");
  }
  // Open MPI reuses job numbers; the port of its server distinguishes two such jobs.
  if (const auto server = lookup("PMIX_SERVER_URI2"); server && !info.job.empty()) {
    info.job += "-" + server->substr(server->rfind(':') + 1);
  }
  return info;
}

}  // namespace

std::optional<std::string> own_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

LaunchInfo read_launch(const EnvLookup& lookup) {
  LaunchInfo info;
  info.launcher = "single";
  for (const Launcher& launcher : launchers) {
    if (const auto found = read_ranks(launcher, lookup)) {
      info = *found;
      break;
    }
  }
  info.master_addr = lookup("MASTER_ADDR").value_or("");
  if (const auto port = lookup("MASTER_PORT"))
    info.master_port = read_int("MASTER_PORT", *port, 1, 65535);
  info.agent_store = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  if (info.agent_store && info.launcher == "env") info.start_hint = kTorchrunHint;
  info.attempt = lookup("TORCHELASTIC_RESTART_COUNT").value_or("0");
  info.gloo_interface = lookup("GLOO_SOCKET_IFNAME").value_or("");
  info.chose_threads = lookup("OMP_NUM_THREADS") || lookup("MKL_NUM_THREADS");
  REQUIRE(info.launcher != "env" || info.world_size == 1 || !info.master_addr.empty(),
          ExitCode::usage,
          "RANK and WORLD_SIZE={} are set, but MASTER_ADDR is not; start all ranks with torchrun, "
          "or set it to the first rank's host",
          info.world_size);
  return info;
}

LaunchInfo read_launch() {
  return read_launch(own_environment);
}

std::string read_error_file() {
  return own_environment("TORCHELASTIC_ERROR_FILE").value_or("");
}

}  // namespace tg
