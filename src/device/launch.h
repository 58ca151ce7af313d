#pragma once
// Types that every kernel launcher takes. No LibTorch or CUDA headers here: a .cu file that
// includes only this compiles in seconds for each architecture.
#include <cstdint>

struct CUstream_st;

namespace tg::cuda {

using Stream = CUstream_st*;  // cudaStream_t
enum class Dtype { fp32, bf16, fp16 };

// Grid size: `wanted` blocks, at most `per_sm` on each SM of the current GPU (the one at the first
// call).
int blocks_for(std::int64_t wanted, int per_sm);
// Whether that GPU has compute capability 9.x.
bool is_hopper();

}  // namespace tg::cuda
