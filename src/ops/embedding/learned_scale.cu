// One pass over memory each: forward reads x and writes the product; backward reads x and the
// upstream gradient and writes x's gradient.
#include "ops/embedding/embedding_kernel.h"
#include "ops/kernels.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256, kBlocks = 8;  // per SM

template <typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* __restrict__ x, const float* __restrict__ scale, std::int64_t packs,
                   T* __restrict__ out) {
  using P = Pack<T>;
  const float factor = *scale;
  const auto step = std::int64_t{gridDim.x} * kThreads;
  for (auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const P pack = load_pack(x + i * P::size);
    float scaled[P::size];
#pragma unroll
    for (int k = 0; k < P::size; ++k) scaled[k] = pack[k] * factor;
    store_rounded(out + i * P::size, scaled);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(ScaledRows in, const T* __restrict__ dy, std::int64_t dy_stride,
                    T* __restrict__ dx, float* __restrict__ partials) {
  using P = Pack<T>;
  const float factor = *in.scale;
  const T* const x = static_cast<const T*>(in.x);
  const int packs_per_row = in.width / P::size;
  const auto packs = in.rows * packs_per_row, step = std::int64_t{gridDim.x} * kThreads;
  float sum = 0;
  for (auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const auto row = i / packs_per_row, pack_of_row = i - row * packs_per_row;
    const P value = load_pack(x + i * P::size);
    const P gradient = load_pack(dy + row * dy_stride + pack_of_row * P::size);
    float scaled[P::size];
#pragma unroll
    for (int k = 0; k < P::size; ++k) {
      scaled[k] = gradient[k] * factor;
      sum += gradient[k] * value[k];
    }
    store_rounded(dx + i * P::size, scaled);
  }
  __shared__ float warps[kThreads / kWarp];
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (const float of_warp : warps) total += of_warp;
  partials[blockIdx.x] = total;
}

int blocks_for_packs(std::int64_t packs) {
  return blocks_for((packs + kThreads - 1) / kThreads, kBlocks);
}

}  // namespace

void learned_scale_forward(const ScaledRows& in, void* out, Stream stream) {
  dispatch(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto packs = in.rows * (in.width / Pack<T>::size);
    forward_kernel<T><<<blocks_for_packs(packs), kThreads, 0, stream>>>(
        static_cast<const T*>(in.x), in.scale, packs, static_cast<T*>(out));
  });
  check_launch("learned_scale_forward");
}

void learned_scale_backward(const ScaledRows& in, const void* dy, std::int64_t dy_stride, void* dx,
                            float* dscale, const Workspace& workspace, Stream stream) {
  dispatch(in.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int blocks = blocks_for_packs(in.rows * (in.width / Pack<T>::size));
    float* const partials = workspace(blocks);
    backward_kernel<T><<<blocks, kThreads, 0, stream>>>(in, static_cast<const T*>(dy), dy_stride,
                                                        static_cast<T*>(dx), partials);
    check_launch("learned_scale_backward");
    sum_rows(partials, blocks, 1, dscale, stream);
  });
}

}  // namespace tg::cuda
