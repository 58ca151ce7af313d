#pragma once
// What the launchers of our kernels take. Neither LibTorch nor CUDA headers here: a .cu file that
// includes this compiles in seconds for each architecture.
#include <cstdint>

struct CUstream_st;

namespace tg::cuda {

using Stream = CUstream_st*;  // cudaStream_t
enum class Float { fp32, bf16, fp16 };

// out[c] = Σ over rows of partials [rows, columns] fp32, in a fixed order. What kernels that sum
// over tokens end with: each block leaves a row, and no atomic makes the sum depend on chance.
void sum_rows(const float* partials, std::int64_t rows, std::int64_t columns, float* out,
              Stream stream);

// Of the process's GPU, the current one at the first call: blocks that fill it `per_multiprocessor`
// times over, at most `wanted`; whether it runs what is in hopper/.
int blocks_for(std::int64_t wanted, int per_multiprocessor);
bool is_hopper();

}  // namespace tg::cuda
