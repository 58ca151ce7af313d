#pragma once
// Memory of the current GPU, in bytes. Implemented in cuda/, or in no_cuda/ for a build without
// CUDA, where there is none.
#include <cstdint>

namespace tg {

struct MemoryPeak {
  std::int64_t allocated = 0, reserved = 0;
};
// Peak since the program started.
MemoryPeak gpu_memory_peak();

// Returns memory that the allocator caches to the GPU, such as of graphs whose pool has no other
// graph left.
void free_cached_gpu_memory();

// Limits this process to a GPU of `bytes` bytes (no effect if that exceeds the GPU's memory).
// Memory in use by others counts against it, see usable_gpu_memory(). Throws ExitCode::usage if
// nothing is left.
void limit_gpu_memory(std::int64_t bytes);
// The GPU's memory, or the limit, minus memory in use that is not from this process's allocator:
// CUDA context, kernels, NCCL buffers, other processes.
std::int64_t usable_gpu_memory();

// A trial with reduced memory. The constructor frees all cached memory; until destruction,
// allocations beyond usable_gpu_memory() minus `spare` bytes fail as on a smaller GPU.
class GpuMemoryTrial {
 public:
  explicit GpuMemoryTrial(std::int64_t spare);
  ~GpuMemoryTrial();
  GpuMemoryTrial(const GpuMemoryTrial&) = delete;
  GpuMemoryTrial& operator=(const GpuMemoryTrial&) = delete;

  std::int64_t peak() const;                       // maximum reserved since construction
  std::int64_t before() const { return before_; }  // reserved at construction

 private:
  std::int64_t before_;
};

}  // namespace tg
