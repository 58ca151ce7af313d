#include "ops/attention/kernels/attention_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_kernel(const float* __restrict__ gradient, std::int64_t count, int window, T* dx,
               std::int64_t width) {
  const auto step = std::int64_t{gridDim.x} * kThreads;
  for (auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const auto token = i / window;
    T& sum = dx[token * width + (i - token * window)];
    sum = static_cast<T>(static_cast<float>(sum) + gradient[i]);
  }
}

}  // namespace

void add_to_first_columns(const float* gradient, std::int64_t tokens, int window, void* dx,
                          std::int64_t width, Dtype dtype, Stream stream) {
  const auto count = tokens * window;
  if (count == 0) return;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    add_kernel<T><<<blocks_for((count + kThreads - 1) / kThreads, 32), kThreads, 0, stream>>>(
        gradient, count, window, static_cast<T*>(dx), width);
  });
  check_launch("add_to_first_columns");
}

}  // namespace tg::cuda
