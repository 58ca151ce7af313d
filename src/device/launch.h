#pragma once
// What the launchers of our kernels take. Neither LibTorch nor CUDA headers here: a .cu file that
// includes this compiles in seconds for each architecture.
#include <cstdint>

struct CUstream_st;

namespace tg::cuda {

using Stream = CUstream_st*;  // cudaStream_t
enum class Float { fp32, bf16, fp16 };

// Of the process's GPU, the current one at the first call: blocks that fill it `per_multiprocessor`
// times over, at most `wanted`; whether it is a Hopper GPU.
int blocks_for(std::int64_t wanted, int per_multiprocessor);
bool is_hopper();

}  // namespace tg::cuda
