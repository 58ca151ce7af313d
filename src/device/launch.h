#pragma once
// Types that every kernel launcher takes. Includes no LibTorch or CUDA headers, so that a .cu file
// that includes only this compiles in seconds per architecture.
#include <cstdint>

struct CUstream_st;

namespace tg::cuda {

using Stream = CUstream_st*;  // cudaStream_t
enum class Dtype { fp32, bf16, fp16 };

// Grid size: `wanted` blocks, but at most `per_sm` per SM of the GPU that was current at the first
// call.
int blocks_for(std::int64_t wanted, int per_sm);
// Returns whether that GPU has compute capability 9.x.
bool is_hopper();

}  // namespace tg::cuda
