#include "device/gpu_memory.h"

namespace tg {

MemoryPeak gpu_memory_peak() {
  return {};
}
void limit_gpu_memory(std::int64_t) {}
std::int64_t usable_gpu_memory() {
  return 0;
}
GpuMemoryTrial::GpuMemoryTrial(std::int64_t) : before_(0) {}
GpuMemoryTrial::~GpuMemoryTrial() = default;
std::int64_t GpuMemoryTrial::peak() const {
  return 0;
}

}  // namespace tg
