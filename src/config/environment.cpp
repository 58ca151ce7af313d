#include "config/environment.h"

#include <cstdlib>
#include <filesystem>

namespace tg {

std::vector<std::pair<std::string, std::string>> library_environment(const RuntimeConfig& runtime,
                                                                     const LaunchInfo& launch,
                                                                     const EnvLookup& lookup,
                                                                     bool gpu_driver) {
  std::vector<std::pair<std::string, std::string>> variables;
  const auto add = [&](const char* name, const char* value) {
    if (!lookup(name)) variables.emplace_back(name, value);
  };
  const bool gpu = runtime.device != DeviceChoice::cpu && gpu_driver;
  // Without a GPU Kineto logs an ERROR that says only that.
  if (runtime.profile == ProfileMode::on && !gpu) add("KINETO_LOG_LEVEL", "5");
  // cuBLAS reads it at its first GEMM; without it the deterministic mode refuses to run.
  if (runtime.deterministic) add("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  if (launch.world_size == 1) return variables;

  // LibTorch logs a backtrace for each failed connection; our own error line is enough.
  add("TORCH_CPP_LOG_LEVEL", "FATAL");
  // The flight recorder then holds some hundred steps.
  add("TORCH_FR_BUFFER_SIZE", "20000");
  // Off unless the user turns it on: multicast needs set-up that shared machines often lack.
  add("NCCL_NVLS_ENABLE", "0");
  // On one node NCCL's bootstrap sockets need not be reachable from elsewhere.
  if (launch.one_node) add("NCCL_SOCKET_IFNAME", "lo");
  return variables;
}

void set_library_environment(const RuntimeConfig& runtime, const LaunchInfo& launch) {
  std::error_code none;
  const bool gpu_driver = std::filesystem::exists("/dev/nvidiactl", none);
  for (const auto& [name, value] :
       library_environment(runtime, launch, own_environment, gpu_driver)) {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
}

}  // namespace tg
