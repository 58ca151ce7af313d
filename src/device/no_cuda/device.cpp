// The GPU, its memory, graphs and streams, in a build without CUDA: there is none.
#include "device/gpu.h"
#include "device/gpu_graphs.h"
#include "device/gpu_memory.h"
#include "device/launch.h"
#include "device/stream.h"

namespace tg {

std::vector<std::string> gpu_names() {
  return {};
}
std::string cuda_version() {
  return "";
}
std::string cudnn_version() {
  return "";
}
std::string nccl_version() {
  return "";
}
void use_gpu(int) {}
void wait_for_gpu() {}
bool has_used_gpu() {
  return false;
}
bool has_bf16_tensor_cores() {
  return false;
}
bool has_fp8_tensor_cores() {
  return false;
}
void begin_gpu_range(const char*) {}
void end_gpu_range() {}

struct GpuGraphs::Graphs {};

GpuGraphs::GpuGraphs() = default;
GpuGraphs::~GpuGraphs() = default;
std::string GpuGraphs::capture(const std::vector<std::function<void()>>&) {
  return "built without CUDA";
}
void GpuGraphs::replay(std::size_t) {}
void GpuGraphs::invalidate() {}

MemoryPeak gpu_memory_peak() {
  return {};
}
void free_cached_gpu_memory() {}
void limit_gpu_memory(std::int64_t) {}
std::int64_t usable_gpu_memory() {
  return 0;
}
GpuMemoryTrial::GpuMemoryTrial(std::int64_t) : before_(0) {}
GpuMemoryTrial::~GpuMemoryTrial() = default;
std::int64_t GpuMemoryTrial::peak() const {
  return 0;
}

cuda::Stream current_stream(const at::Tensor&) {
  return nullptr;
}
bool is_on_gpu(const at::Tensor&) {
  return false;
}

}  // namespace tg

namespace tg::cuda {

int blocks_for(std::int64_t, int) {
  return 1;
}
bool is_hopper() {
  return false;
}

}  // namespace tg::cuda
