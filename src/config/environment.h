#pragma once
#include <string>
#include <utility>
#include <vector>

#include "config/launch.h"
#include "config/runtime_config.h"

namespace tg {

// Returns the environment variables (name, value) that LibTorch, NCCL, cuBLAS and Kineto need in
// the run, except variables that `lookup` finds: the user's values take precedence. `gpu_driver`:
// NVIDIA's driver is loaded on this machine.
std::vector<std::pair<std::string, std::string>> library_environment(const RuntimeConfig& runtime,
                                                                     const LaunchInfo& launch,
                                                                     const EnvLookup& lookup,
                                                                     bool gpu_driver);
// Sets the variables of library_environment() in this process. The only function that changes the
// environment: call it while the process has one thread, since setenv may move the memory that
// getenv of another thread reads.
void set_library_environment(const RuntimeConfig& runtime, const LaunchInfo& launch);

}  // namespace tg
