// Muon's momentum: each gradient and buffer read once, buffer and result written once; its step:
// parameter and update read once, the parameter written once. In ATen they move four times as much.
#include "ops/kernels.cuh"
#include "ops/optim/muon_update_kernel.h"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 8;  // numbers of a thread and pass: a pack of the narrower type

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

template <typename M, typename G>
__global__ void __launch_bounds__(kThreads) momentum_kernel(NesterovMomentum of) {
  auto* const momentum = static_cast<M*>(of.momentum);
  const bool skip = *of.skip;
  const float mu = skip ? 1.0f : *of.mu, clip = *of.clip;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * kChunk;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t first = thread * kChunk; first < of.count; first += step) {
    const auto before = load_chunk<M>(momentum, first, of.count);
    const auto g = load_chunk(static_cast<const G*>(of.gradient), first, of.count);
    float gradient[kChunk], values[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      gradient[i] = skip ? 0.0f : g[i] * clip;
      values[i] = mu * before[i] + gradient[i];
    }
    const auto b = Pack<M, kChunk>::rounded(values);
    store_chunk(momentum, b, first, of.count);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = mu * b[i] + gradient[i];
    store_chunk(static_cast<M*>(of.ahead), Pack<M, kChunk>::rounded(values), first, of.count);
  }
}

template <typename U>
__global__ void __launch_bounds__(kThreads)
    step_kernel(float* parameters, const U* __restrict__ update, std::int64_t count,
                const float* __restrict__ rate, float decay, float scale) {
  const float keep = 1.0f - *rate * decay, by = *rate * scale;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * kChunk;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t first = thread * kChunk; first < count; first += step) {
    const auto p = load_chunk<float>(parameters, first, count);
    const auto u = load_chunk(update, first, count);
    float values[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = p[i] * keep - by * u[i];
    store_chunk(parameters, Pack<float, kChunk>::rounded(values), first, count);
  }
}

int blocks_of(std::int64_t count) {
  return blocks_for((count + kThreads * kChunk - 1) / (kThreads * kChunk), 8);
}

}  // namespace

void nesterov_momentum(const NesterovMomentum& of, Float momentum, Float gradient, Stream stream) {
  if (of.count == 0) return;
  dispatch(momentum, [&](auto m) {
    dispatch(gradient, [&](auto g) {
      momentum_kernel<decltype(m), decltype(g)><<<blocks_of(of.count), kThreads, 0, stream>>>(of);
    });
  });
  check_launch("nesterov_momentum");
}

void decayed_step(float* parameters, const void* update, std::int64_t count, const float* rate,
                  float decay, float scale, Float number, Stream stream) {
  if (count == 0) return;
  dispatch(number, [&](auto u) {
    using U = decltype(u);
    step_kernel<U><<<blocks_of(count), kThreads, 0, stream>>>(
        parameters, static_cast<const U*>(update), count, rate, decay, scale);
  });
  check_launch("decayed_step");
}

}  // namespace tg::cuda
