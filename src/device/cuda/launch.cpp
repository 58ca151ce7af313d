#include "device/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "device/gpu.h"

namespace tg::cuda {

namespace {

int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

}  // namespace

int blocks_for(std::int64_t wanted, int per_sm) {
  static const int sms = device_attribute(cudaDevAttrMultiProcessorCount);
  const std::int64_t most = std::int64_t{per_sm} * sms;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

bool is_hopper() {
  static const bool hopper = device_attribute(cudaDevAttrComputeCapabilityMajor) == 9;
  return hopper;
}

}  // namespace tg::cuda

namespace tg {

bool has_fp8_tensor_cores() {
  static const bool has = 10 * cuda::device_attribute(cudaDevAttrComputeCapabilityMajor) +
                              cuda::device_attribute(cudaDevAttrComputeCapabilityMinor) >=
                          89;
  return has;
}

}  // namespace tg
