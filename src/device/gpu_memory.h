#pragma once
// The memory of the current GPU, in bytes. Implemented in cuda/; in a build without CUDA in
// no_cuda/, where there is none.
#include <cstdint>

namespace tg {

struct MemoryPeak {
  std::int64_t allocated = 0, reserved = 0;
};
// Since the program started.
MemoryPeak gpu_memory_peak();

// From now on the GPU is used like one of so many bytes (of more than it has: as it is). What is in
// use on it otherwise counts, see usable_gpu_memory(). Errors: usage (nothing is left).
void limit_gpu_memory(std::int64_t bytes);
// The GPU's memory, or the limit, without what is in use now but not by this process's tensors: its
// CUDA context and kernels, NCCL's buffers, other processes.
std::int64_t usable_gpu_memory();

// A trial with less memory than there is. On its construction all cached memory is given back to
// the GPU; while it lives, allocations beyond usable_gpu_memory() less `spare` bytes fail as on a
// GPU that has no more.
class GpuMemoryTrial {
 public:
  explicit GpuMemoryTrial(std::int64_t spare);
  ~GpuMemoryTrial();
  GpuMemoryTrial(const GpuMemoryTrial&) = delete;
  GpuMemoryTrial& operator=(const GpuMemoryTrial&) = delete;

  std::int64_t peak() const;                       // reserved at most since the construction
  std::int64_t before() const { return before_; }  // reserved at the construction

 private:
  std::int64_t before_;
};

}  // namespace tg
