#include "config/environment.h"

#include <cstdlib>
#include <filesystem>

namespace tg {

namespace {

class Environment {
 public:
  explicit Environment(const EnvLookup& lookup) : lookup_(lookup) {}

  void add(const char* name, const char* value) {
    if (!lookup_(name)) variables_.emplace_back(name, value);
  }
  bool has(const char* name) const { return lookup_(name).has_value(); }
  std::vector<std::pair<std::string, std::string>> take() { return std::move(variables_); }

 private:
  const EnvLookup& lookup_;
  std::vector<std::pair<std::string, std::string>> variables_;
};

// NCCL's order of summation depends on the algorithm, the protocol and the number of channels.
void fix_collectives(Environment& environment) {
  environment.add("NCCL_ALGO", "Ring");  // all that reduce-scatter and all-gather have without NVLS
  environment.add("NCCL_PROTO", "Simple");
  // Where the user sets one of them, ours might contradict it.
  if (environment.has("NCCL_MIN_NCHANNELS") || environment.has("NCCL_MAX_NCHANNELS")) return;
  environment.add("NCCL_MIN_NCHANNELS", "8");
  environment.add("NCCL_MAX_NCHANNELS", "8");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> library_environment(const RuntimeConfig& runtime,
                                                                     const LaunchInfo& launch,
                                                                     const EnvLookup& lookup,
                                                                     bool gpu_driver) {
  Environment environment(lookup);
  const bool gpu = runtime.device != DeviceChoice::cpu && gpu_driver;
  // Without a GPU Kineto logs an ERROR that says only that.
  if (runtime.profile == ProfileMode::on && !gpu) environment.add("KINETO_LOG_LEVEL", "5");
  // cuBLAS reads it at its first GEMM; without it the deterministic mode refuses to run.
  if (runtime.deterministic) environment.add("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  if (launch.world_size == 1) return environment.take();

  // LibTorch logs a backtrace for each failed connection; our own error line is enough.
  environment.add("TORCH_CPP_LOG_LEVEL", "FATAL");
  // The flight recorder then holds some hundred steps.
  environment.add("TORCH_FR_BUFFER_SIZE", "20000");
  // Off unless the user turns it on: multicast needs set-up that shared machines often lack.
  environment.add("NCCL_NVLS_ENABLE", "0");
  // On one node NCCL's bootstrap sockets need not be reachable from elsewhere.
  if (launch.one_node) environment.add("NCCL_SOCKET_IFNAME", "lo");
  if (runtime.deterministic) fix_collectives(environment);
  return environment.take();
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
