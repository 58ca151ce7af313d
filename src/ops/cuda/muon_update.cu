// Muon's momentum: each gradient and buffer read once, buffer and result written once; its step:
// parameter and update read once, the parameter written once. In ATen they move four times as much.
#include "ops/cuda/device.cuh"
#include "ops/cuda/muon_update.h"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 8;  // numbers of a thread and pass: a pack of the narrower type

// Eight numbers, of whatever width, as fp32.
template <typename T>
struct Chunk {
  Pack<T> packs[kChunk / Pack<T>::size];

  __device__ float operator[](int i) const { return packs[i / Pack<T>::size][i % Pack<T>::size]; }
  // Rounds, and says to what.
  __device__ float set(int i, float value) {
    packs[i / Pack<T>::size].set(i % Pack<T>::size, value);
    return (*this)[i];
  }
};

template <typename T>
__device__ Chunk<T> load_chunk(const T* from, std::int64_t first, std::int64_t count) {
  Chunk<T> chunk;
  if (first + kChunk <= count) {
#pragma unroll
    for (int i = 0; i < kChunk; i += Pack<T>::size)
      chunk.packs[i / Pack<T>::size] = load_pack(from + first + i);
  } else {
    for (int i = 0; i < kChunk; ++i)
      chunk.set(i, first + i < count ? static_cast<float>(from[first + i]) : 0.0f);
  }
  return chunk;
}

template <typename T>
__device__ void store_chunk(T* to, const Chunk<T>& chunk, std::int64_t first, std::int64_t count) {
  if (first + kChunk <= count) {
#pragma unroll
    for (int i = 0; i < kChunk; i += Pack<T>::size)
      store_pack(to + first + i, chunk.packs[i / Pack<T>::size]);
  } else {
    for (int i = 0; first + i < count; ++i) to[first + i] = static_cast<T>(chunk[i]);
  }
}

template <typename M, typename G>
__global__ void __launch_bounds__(kThreads) momentum_kernel(NesterovMomentum of) {
  auto* const momentum = static_cast<M*>(of.momentum);
  const bool skip = *of.skip;
  const float mu = skip ? 1.0f : *of.mu, clip = *of.clip;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * kChunk;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t first = thread * kChunk; first < of.count; first += step) {
    auto b = load_chunk<M>(momentum, first, of.count);
    const auto g = load_chunk(static_cast<const G*>(of.gradient), first, of.count);
    Chunk<M> ahead;
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      const float gradient = skip ? 0.0f : g[i] * clip;
      ahead.set(i, mu * b.set(i, mu * b[i] + gradient) + gradient);
    }
    store_chunk(momentum, b, first, of.count);
    store_chunk(static_cast<M*>(of.ahead), ahead, first, of.count);
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
    auto p = load_chunk<float>(parameters, first, count);
    const auto u = load_chunk(update, first, count);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) p.set(i, p[i] * keep - by * u[i]);
    store_chunk(parameters, p, first, count);
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
