#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace tg {

// Physical cores in the affinity mask of process `pid` (0: this one); hyperthreads of one core
// count once. Returns 0 if there is no such process.
int cores_of(pid_t pid);

// CPU limit of this process's cgroups in whole cores, at least 1; nullopt if they set none. `root`
// is the root of the file system.
std::optional<int> cgroup_cores(const std::string& root = "/");

// Cores that this process may use, by its affinity mask and its cgroups: at least 1.
int available_cores();

}  // namespace tg
