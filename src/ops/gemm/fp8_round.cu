#include "ops/gemm/fp8.cuh"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    round_kernel(const T* x, std::int64_t chunks, Fp8Copy copy) {
  const float inverse_scale = 1 / *copy.scale;
  float amax = 0;
  const auto stride = std::int64_t{gridDim.x} * kThreads;
  for (auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < chunks; i += stride) {
    const auto x_pack = load_pack<T, kFp8Chunk>(x + i * kFp8Chunk);
    __stwb(static_cast<uint4*>(copy.values) + i, fp8_chunk(x_pack, inverse_scale, amax));
  }
  raise_amax(copy.amax, amax);
}

}  // namespace

void fp8_round(const void* x, std::int64_t count, const Fp8Copy& copy, Dtype dtype, Stream stream) {
  const auto chunks = count / kFp8Chunk;
  if (chunks == 0) return;
  dispatch_half(dtype, [&](auto zero) {
    using T = decltype(zero);
    round_kernel<<<blocks_for((chunks + kThreads - 1) / kThreads, 8), kThreads, 0, stream>>>(
        static_cast<const T*>(x), chunks, copy);
  });
  check_launch("fp8_round");
}

}  // namespace tg::cuda
