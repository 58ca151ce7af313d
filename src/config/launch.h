#pragma once
// Rank and world size of this process, from the environment that torchrun, mpirun or srun sets.
#include <functional>
#include <optional>
#include <string>

namespace tg {

struct LaunchInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_size = 1;          // ranks on this host; world_size if unknown
  bool one_node = true;        // all ranks run on this host, as far as is known
  std::string launcher;        // "env" (torchrun), "openmpi", "slurm", "pmi" or "single"
  std::string size_variable;   // the variable that gave world_size, such as "SLURM_NTASKS"
  std::string start_hint;      // how the launcher starts ranks, for messages about missing ranks
  std::string job;             // unique among the jobs of this host; empty: unknown
  std::string master_addr;     // MASTER_ADDR; empty: not given
  int master_port = 29500;     // MASTER_PORT
  bool agent_store = false;    // torchrun's agent hosts the TCPStore at that address
  std::string attempt;         // TORCHELASTIC_RESTART_COUNT: a part of the store's keys
  std::string gloo_interface;  // GLOO_SOCKET_IFNAME; empty: not given
  bool chose_threads = false;  // OMP_NUM_THREADS or MKL_NUM_THREADS is set
};

using EnvLookup = std::function<std::optional<std::string>(const char* name)>;

// RANK, WORLD_SIZE, LOCAL_RANK; else OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK}; else
// SLURM_{PROCID,NTASKS,LOCALID}; else PMI_{RANK,SIZE} and, where it is set, MPI_LOCALRANKID; else
// a single process. The first set of which any variable exists is used. The number of ranks on this
// host: LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE, SLURM_STEP_TASKS_PER_NODE or
// SLURM_TASKS_PER_NODE, MPI_LOCALNRANKS. If that number or the world size is 1, the local rank may
// be absent and is 0; with several ranks on a host it is required, since it selects the GPU. Throws
// Error(usage) for an incomplete set and for invalid values.
LaunchInfo read_launch(const EnvLookup& lookup);
// Reads the environment of this process.
LaunchInfo read_launch();
// Returns a variable of this process's environment.
std::optional<std::string> own_environment(const char* name);
// Returns TORCHELASTIC_ERROR_FILE, from which torchrun reports a rank's error; empty: not given.
// Apart from read_launch, so that its errors are reported there as well.
std::string read_error_file();

}  // namespace tg
