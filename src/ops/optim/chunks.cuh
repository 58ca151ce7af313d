#pragma once
// Loops over the elements of tensors in chunks of one 16-byte access of a 16-bit type, of any
// count.
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kChunk = 8;  // elements per thread and iteration
constexpr int kChunkThreads = 256;

template <typename T>
__device__ Pack<T, kChunk> load_chunk(const T* from, std::int64_t first, std::int64_t count) {
  if (first + kChunk <= count) return load_pack<T, kChunk>(from + first);
  float values[kChunk];
#pragma unroll
  for (int i = 0; i < kChunk; ++i)
    values[i] = first + i < count ? static_cast<float>(from[first + i]) : 0.0f;
  return Pack<T, kChunk>::rounded(values);
}

template <typename T>
__device__ void store_chunk(T* to, const Pack<T, kChunk>& chunk, std::int64_t first,
                            std::int64_t count) {
  if (first + kChunk <= count) return store_pack(to + first, chunk);
#pragma unroll
  for (int i = 0; i < kChunk; ++i)
    if (first + i < count) to[first + i] = static_cast<T>(chunk[i]);
}

// Calls op(first) for each chunk of this thread. Blocks have kChunkThreads threads.
template <typename Op>
__device__ void for_each_chunk(std::int64_t count, Op op) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kChunkThreads * kChunk;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kChunkThreads + threadIdx.x;
  for (std::int64_t first = thread * kChunk; first < count; first += stride) op(first);
}

inline int chunk_blocks(std::int64_t count) {
  return blocks_for((count + kChunkThreads * kChunk - 1) / (kChunkThreads * kChunk), 8);
}

// Launches a kernel over the chunks of args.count elements, if there are any.
template <typename Args>
void launch_chunks(void (*kernel)(Args), const Args& args, const char* name, Stream stream) {
  if (args.count == 0) return;
  kernel<<<chunk_blocks(args.count), kChunkThreads, 0, stream>>>(args);
  check_launch(name);
}

// Calls op(A{}, B{}) with the element types of both dtypes.
template <typename Op>
void dispatch(Dtype a_dtype, Dtype b_dtype, Op op) {
  dispatch(a_dtype, [&](auto a) { dispatch(b_dtype, [&](auto b) { op(a, b); }); });
}

}  // namespace tg::cuda
