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

// The order of sums is the algorithm's, and the number of channels cuts them differently.
void fix_collectives(Environment& environment) {
  environment.add("NCCL_ALGO", "Ring");  // reduce-scatter and all-gather know no other without NVLS
  environment.add("NCCL_PROTO", "Simple");
  // The user's own number of either may contradict ours of the other.
  if (environment.has("NCCL_MIN_NCHANNELS") || environment.has("NCCL_MAX_NCHANNELS")) return;
  environment.add("NCCL_MIN_NCHANNELS", "8");
  environment.add("NCCL_MAX_NCHANNELS", "8");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> library_environment(const Settings& settings,
                                                                     const LaunchInfo& launch,
                                                                     const EnvLookup& lookup,
                                                                     bool gpu_driver) {
  Environment environment(lookup);
  const RuntimeConfig& runtime = settings.runtime;
  const bool gpu = runtime.device != DeviceChoice::cpu && gpu_driver;
  // Where there is no GPU, Kineto says ERROR and means that there is no GPU.
  if (runtime.profile == ProfileMode::on && !gpu) environment.add("KINETO_LOG_LEVEL", "5");
  // cuBLAS reads it at its first product; without it the deterministic mode refuses to run.
  if (runtime.deterministic) environment.add("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  if (launch.world_size == 1) return environment.take();

  // LibTorch tells of lost connections with a backtrace at every attempt; our one line says it.
  environment.add("TORCH_CPP_LOG_LEVEL", "FATAL");
  // Some hundred steps of the flight recorder.
  environment.add("TORCH_FR_BUFFER_SIZE", "20000");
  // Off unless the user turns it on: multicast needs set-up that shared machines often lack.
  environment.add("NCCL_NVLS_ENABLE", "0");
  // On one node nobody else needs to reach the sockets by which ranks greet each other.
  if (launch.one_node) environment.add("NCCL_SOCKET_IFNAME", "lo");
  if (runtime.deterministic) fix_collectives(environment);
  return environment.take();
}

void set_library_environment(const Settings& settings, const LaunchInfo& launch) {
  std::error_code none;
  const bool gpu_driver = std::filesystem::exists("/dev/nvidiactl", none);
  for (const auto& [name, value] :
       library_environment(settings, launch, own_environment, gpu_driver)) {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
}

}  // namespace tg
