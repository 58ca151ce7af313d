#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace tg {

// Physical cores that the affinity mask of process `pid` (0: this one) reaches: hyperthreads of one
// core count once. 0 where there is no such process.
int cores_of(pid_t pid);

// The CPU time that the cgroups of this process grant it, in whole cores, at least 1; nothing where
// they do not limit it. `root` is the root of the file system.
std::optional<int> cgroup_cores(const std::string& root = "/");

}  // namespace tg
