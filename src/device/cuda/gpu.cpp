#include "device/gpu.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include <atomic>

namespace tg {

namespace {
std::atomic<bool> used = false;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  // This device_count() returns 0, rather than an error, without a driver.
  for (int i = 0; i < c10::cuda::device_count(); ++i) {
    names.emplace_back(at::cuda::getDeviceProperties(i)->name);
  }
  return names;
}

std::string cuda_version() {
  return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

std::string cudnn_version() {
  const auto version = at::detail::getCUDAHooks().versionRuntimeCuDNN();
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string nccl_version() {
  return fmt::format("{}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
}

void use_gpu(int index) {
  used = true;
  const auto device = static_cast<c10::DeviceIndex>(index);
  c10::cuda::set_device(device);
  // CUDA graphs cannot be captured on the default stream.
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device));
}

void wait_for_gpu() {
  c10::cuda::device_synchronize();
}

bool has_used_gpu() {
  return used;
}

bool has_bf16_tensor_cores() {
  return at::cuda::getCurrentDeviceProperties()->major >= 8;
}

void begin_gpu_range(const char* name) {
  nvtxRangePushA(name);
}

void end_gpu_range() {
  nvtxRangePop();
}

}  // namespace tg
