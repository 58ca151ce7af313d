// LeakyReLU squared. Forward reads and writes once, backward reads twice and writes once; the ATen
// reference makes six and nine passes over the tensor. Memory-bound: 16-byte accesses.
#include "ops/kernels.cuh"
#include "ops/mlp/activation.cuh"
#include "ops/mlp/leaky_relu_squared_kernel.h"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;

struct Forward {
  float slope;
  __device__ float operator()(float x, float) const { return activation_of(x, slope); }
};
struct Backward {
  float slope;
  __device__ float operator()(float x, float dy) const {
    return dy * 2 * x * (x > 0 ? 1.0f : slope * slope);  // d(s·x)²/dx = 2·s²·x
  }
};

// Computes out[i] = op(a[i], b[i]); b may be null. The grid's first threads process the remainder
// after the whole packs.
template <typename T, typename Op>
__global__ void __launch_bounds__(kThreads)
    elementwise_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out,
                       std::int64_t count, Op op) {
  using P = Pack<T>;
  const std::int64_t packs = count / P::size;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = thread; i < packs; i += threads) {
    const P pack_a = load_pack(a + i * P::size);
    const P pack_b = b == nullptr ? pack_a : load_pack(b + i * P::size);
    float result[P::size];
#pragma unroll
    for (int k = 0; k < P::size; ++k) result[k] = op(pack_a[k], pack_b[k]);
    store_rounded(out + i * P::size, result);
  }
  const std::int64_t i = packs * P::size + thread;
  if (i < count)
    out[i] = static_cast<T>(op(static_cast<float>(a[i]), static_cast<float>((b ? b : a)[i])));
}

template <typename Op>
void elementwise(const void* a, const void* b, void* out, std::int64_t count, Op op, Dtype dtype,
                 Stream stream) {
  if (count == 0) return;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto packs = count / Pack<T>::size;
    const int blocks = blocks_for((packs + kThreads - 1) / kThreads, 16);
    elementwise_kernel<T><<<blocks, kThreads, 0, stream>>>(
        static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out), count, op);
  });
  check_launch("leaky_relu_squared");
}

}  // namespace

void leaky_relu_squared_forward(const void* x, void* y, std::int64_t count, float slope,
                                Dtype dtype, Stream stream) {
  elementwise(x, nullptr, y, count, Forward{slope}, dtype, stream);
}

void leaky_relu_squared_backward(const void* x, const void* dy, void* dx, std::int64_t count,
                                 float slope, Dtype dtype, Stream stream) {
  elementwise(x, dy, dx, count, Backward{slope}, dtype, stream);
}

}  // namespace tg::cuda
