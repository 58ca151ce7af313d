#pragma once
// Which of how many processes this is, as torchrun, mpirun or srun tell it in the environment.
#include <functional>
#include <optional>
#include <string>

namespace tg {

struct LaunchInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_size = 1;    // ranks on this host; all of them where the launcher does not tell
  bool one_node = true;  // all ranks run on this host, as far as the launcher tells
  std::string launcher;  // "env" (torchrun), "openmpi", "slurm", "pmi" or "single"
  std::string job;       // names this job among those of the host; empty: the launcher has no name
  std::string master_addr;   // MASTER_ADDR; empty: not given
  int master_port = 29500;   // MASTER_PORT
  bool agent_store = false;  // torchrun's agent keeps the store at that address
  std::string attempt;       // TORCHELASTIC_RESTART_COUNT: keys of an earlier attempt are not ours
  std::string gloo_interface;  // GLOO_SOCKET_IFNAME; empty: not given
  bool chose_threads = false;  // OMP_NUM_THREADS or MKL_NUM_THREADS is set
};

using EnvLookup = std::function<std::optional<std::string>(const char* name)>;

// RANK, WORLD_SIZE, LOCAL_RANK; else OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK}; else
// SLURM_{PROCID,NTASKS,LOCALID}; else PMI_{RANK,SIZE} and, where it is set, MPI_LOCALRANKID; else
// one process alone. The first set with any of its names decides. Errors: usage, for a set with a
// name missing, and for values that cannot be. The ranks of this host: LOCAL_WORLD_SIZE,
// OMPI_COMM_WORLD_LOCAL_SIZE, SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE, MPI_LOCALNRANKS.
LaunchInfo read_launch(const EnvLookup& lookup);
// From the environment of this process.
LaunchInfo read_launch();
// A variable of this process.
std::optional<std::string> own_environment(const char* name);
// TORCHELASTIC_ERROR_FILE, in which torchrun looks for what a rank died of; empty: not given. Apart
// from the rest, so that what is wrong there can be told as well.
std::string read_error_file();

}  // namespace tg
