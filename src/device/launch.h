#pragma once
// Types that kernel launchers take. Includes no LibTorch or CUDA headers, so that a .cu file
// that includes only this compiles in seconds per architecture.
#include <cstdint>
#include <functional>

struct CUstream_st;

namespace tg::cuda {

using Stream = CUstream_st*;  // cudaStream_t
enum class Dtype { fp32, bf16, fp16 };
// Allocates a launcher's workspace of `count` fp32 elements, 16-byte aligned, for the kernels that
// it launches. Each launcher calls it at most once.
using Workspace = std::function<float*(std::int64_t count)>;

// Grid size: `wanted` blocks, but at most `per_sm` per SM of the GPU that was current at the first
// call.
int blocks_for(std::int64_t wanted, int per_sm);
// Returns whether that GPU has compute capability 9.x.
bool is_hopper();

}  // namespace tg::cuda
