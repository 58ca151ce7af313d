#pragma once
// The GPUs of this machine. Implemented in cuda/, or in no_cuda/ for a build without CUDA, which
// has no GPU.
#include <string>
#include <vector>

namespace tg {

std::vector<std::string> gpu_names();
// "13.0", "9.19.0", "2.28.9"; empty without CUDA.
std::string cuda_version();
std::string cudnn_version();
std::string nccl_version();

void use_gpu(int index);  // sets this thread's current device, and a current stream from the pool
void wait_for_gpu();      // synchronises the current device
bool has_used_gpu();      // whether any thread of this process called use_gpu()

// Returns whether the current device has compute capability 8.0 or more.
bool has_bf16_tensor_cores();
// Returns whether the GPU that was current at the first call has FP8 tensor cores: compute
// capability 8.9 or more.
bool has_fp8_tensor_cores();

// Named NVTX range of the calling thread, for Nsight Systems.
void begin_gpu_range(const char* name);
void end_gpu_range();

}  // namespace tg
