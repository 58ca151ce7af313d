// Muon's elementwise kernels. The momentum kernel reads gradient and buffer once and writes buffer
// and result once; the step kernel reads parameter and update once and writes the parameter once.
// ATen moves four times as many bytes.
#include "ops/kernels.cuh"
#include "ops/optim/muon_update_kernel.h"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 8;  // elements per thread and iteration: one 16-byte access of a 16-bit type

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
__global__ void __launch_bounds__(kThreads) momentum_kernel(NesterovMomentum args) {
  auto* const momentum = static_cast<M*>(args.momentum);
  const bool skip = *args.skip;
  const float mu = skip ? 1.0f : *args.mu, clip = *args.clip;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * kChunk;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t first = thread * kChunk; first < args.count; first += stride) {
    const auto buffer = load_chunk<M>(momentum, first, args.count);
    const auto g = load_chunk(static_cast<const G*>(args.gradient), first, args.count);
    float gradient[kChunk], values[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      gradient[i] = skip ? 0.0f : g[i] * clip;
      values[i] = mu * buffer[i] + gradient[i];
    }
    const auto b = Pack<M, kChunk>::rounded(values);
    store_chunk(momentum, b, first, args.count);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = mu * b[i] + gradient[i];
    store_chunk(static_cast<M*>(args.lookahead), Pack<M, kChunk>::rounded(values), first,
                args.count);
  }
}

template <typename U>
__global__ void __launch_bounds__(kThreads)
    step_kernel(float* parameters, const U* __restrict__ update, std::int64_t count,
                const float* __restrict__ rate, float decay, float scale) {
  const float keep = 1.0f - *rate * decay, step_size = *rate * scale;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * kChunk;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t first = thread * kChunk; first < count; first += stride) {
    const auto p = load_chunk<float>(parameters, first, count);
    const auto u = load_chunk(update, first, count);
    float values[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) values[i] = p[i] * keep - step_size * u[i];
    store_chunk(parameters, Pack<float, kChunk>::rounded(values), first, count);
  }
}

int grid_size(std::int64_t count) {
  return blocks_for((count + kThreads * kChunk - 1) / (kThreads * kChunk), 8);
}

}  // namespace

void nesterov_momentum(const NesterovMomentum& args, Dtype momentum_dtype, Dtype gradient_dtype,
                       Stream stream) {
  if (args.count == 0) return;
  dispatch(momentum_dtype, [&](auto m) {
    dispatch(gradient_dtype, [&](auto g) {
      momentum_kernel<decltype(m), decltype(g)>
          <<<grid_size(args.count), kThreads, 0, stream>>>(args);
    });
  });
  check_launch("nesterov_momentum");
}

void decayed_step(float* parameters, const void* update, std::int64_t count, const float* rate,
                  float decay, float scale, Dtype dtype, Stream stream) {
  if (count == 0) return;
  dispatch(dtype, [&](auto u) {
    using U = decltype(u);
    step_kernel<U><<<grid_size(count), kThreads, 0, stream>>>(
        parameters, static_cast<const U*>(update), count, rate, decay, scale);
  });
  check_launch("decayed_step");
}

}  // namespace tg::cuda
