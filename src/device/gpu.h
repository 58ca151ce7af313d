#pragma once
// What a run must know of the GPUs of this machine. Implemented in cuda/, or in no_cuda/ where the
// program was built without: there is then never a GPU.
#include <cstdint>
#include <string>
#include <vector>

namespace tg {

std::vector<std::string> gpu_names();
// "13.0", "9.19.0", "2.28.9"; empty without CUDA.
std::string cuda_version();
std::string cudnn_version();
std::string nccl_version();

void use_gpu(int index);  // the current device of this thread, and a stream of its own
void wait_for_gpu();      // until all work given to the current device is done

// A named range of the calling thread for Nsight Systems (NVTX).
void begin_gpu_range(const char* name);
void end_gpu_range();

struct MemoryPeak {
  std::int64_t allocated = 0, reserved = 0;  // bytes
};
// Of the current device since the start.
MemoryPeak gpu_memory_peak();

}  // namespace tg
