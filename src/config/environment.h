#pragma once
#include <string>
#include <utility>
#include <vector>

#include "config/launch.h"
#include "config/settings.h"

namespace tg {

// What LibTorch, NCCL, cuBLAS and Kineto must read in the environment of a run with these settings:
// NAME and value, of those names that `lookup` does not find, so that the user's own values stay.
// `gpu_driver`: NVIDIA's driver is loaded on this machine.
std::vector<std::pair<std::string, std::string>> library_environment(const Settings& settings,
                                                                     const LaunchInfo& launch,
                                                                     const EnvLookup& lookup,
                                                                     bool gpu_driver);
// Sets that. The only place that changes the environment: call it while the process has one thread,
// since setenv may move what another thread is reading.
void set_library_environment(const Settings& settings, const LaunchInfo& launch);

}  // namespace tg
