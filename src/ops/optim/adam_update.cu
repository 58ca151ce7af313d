// Adam in one pass: reads parameter, gradient and moments once, and writes parameter and moments
// once.
#include "ops/optim/chunks.cuh"
#include "ops/optim/optim_kernels.h"

namespace tg::cuda {

namespace {

// lr and lr times the bias correction, in fp64 since β^t is near 1 in the first steps.
struct Rates {
  float lr, corrected;
};
__device__ Rates rates_of(const AdamUpdate& args) {
  const double t = *args.step, lr = *args.lr_scale * args.lr;
  const double correction = sqrt(1 - pow(args.beta2, t)) / (1 - pow(args.beta1, t));
  return {static_cast<float>(lr), static_cast<float>(lr * correction)};
}

template <typename P, typename G>
__global__ void __launch_bounds__(kChunkThreads) adam_kernel(AdamUpdate args) {
  if (*args.skip != 0) return;
  __shared__ Rates shared;
  if (threadIdx.x == 0) shared = rates_of(args);
  __syncthreads();
  const Rates rates = shared;
  const auto beta1 = static_cast<float>(args.beta1), beta2 = static_cast<float>(args.beta2);
  const auto left1 = static_cast<float>(1 - args.beta1);
  const auto left2 = static_cast<float>(1 - args.beta2);
  const auto decay = static_cast<float>(args.weight_decay) * rates.lr;
  auto* const parameter = static_cast<P*>(args.parameter);
  for_each_chunk(args.count, [&](std::int64_t first) {
    const auto p = load_chunk(parameter, first, args.count);
    const auto g = load_chunk(static_cast<const G*>(args.gradient), first, args.count);
    const auto m = load_chunk(args.exp_avg, first, args.count);
    const auto v = load_chunk(args.exp_avg_sq, first, args.count);
    float values[kChunk], averages[kChunk], squares[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      averages[i] = beta1 * m[i] + left1 * g[i];
      squares[i] = beta2 * v[i] + left2 * g[i] * g[i];
      const float u = rates.corrected * averages[i] / (sqrtf(squares[i]) + args.epsilon);
      const float decayed = args.cautious ? (u * p[i] > 0 ? decay * rates.lr : 0.0f) : decay;
      values[i] = p[i] - decayed * p[i] - u;
    }
    store_chunk(parameter, Pack<P, kChunk>::rounded(values), first, args.count);
    store_chunk(args.exp_avg, Pack<float, kChunk>::rounded(averages), first, args.count);
    store_chunk(args.exp_avg_sq, Pack<float, kChunk>::rounded(squares), first, args.count);
  });
}

}  // namespace

void adam_update(const AdamUpdate& args, Dtype parameter_dtype, Dtype gradient_dtype,
                 Stream stream) {
  dispatch(parameter_dtype, gradient_dtype, [&](auto p, auto g) {
    launch_chunks(adam_kernel<decltype(p), decltype(g)>, args, "adam_update", stream);
  });
}

}  // namespace tg::cuda
