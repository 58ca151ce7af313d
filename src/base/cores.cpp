#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace tg {
namespace {

namespace fs = std::filesystem;

// Returns a key that all hyperthreads of a core have in common.
std::string core_of(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                     "/topology/thread_siblings_list");
  std::string siblings;
  return std::getline(file, siblings) ? siblings : std::to_string(cpu);
}

// cgroup v2: "max 100000" or "250000 100000", microseconds of CPU time in each period.
std::optional<double> cores_of_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

// cgroup v1: a quota of -1 means none.
std::optional<double> cores_of_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0)
    return std::nullopt;
  return quota / period;
}

bool names_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

int cores_of(pid_t pid) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(pid, sizeof mask, &mask) != 0) return 0;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cores.insert(core_of(cpu));
  }
  return static_cast<int>(cores.size());
}

std::optional<int> cgroup_cores(const std::string& root) {
  std::optional<double> least;
  std::ifstream groups(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/a/b", or "0::/a/b"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !names_cpu(controllers)) continue;
    const auto top = fs::path(root) / (v2 ? "sys/fs/cgroup" : "sys/fs/cgroup/cpu");
    // The limits of all parent groups apply as well. In a container the parents are not visible,
    // and the path may be the host's.
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (bool more = true; more; group = group.parent_path()) {
      more = !group.empty();
      const auto cores = v2 ? cores_of_v2(top / group) : cores_of_v1(top / group);
      if (cores) least = std::min(least.value_or(*cores), *cores);
    }
  }
  if (!least) return std::nullopt;
  return std::max(1, static_cast<int>(*least));
}

int available_cores() {
  const int own = std::max(1, cores_of(0));
  return std::min(own, cgroup_cores().value_or(own));
}

}  // namespace tg
