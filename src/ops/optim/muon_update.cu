// Muon's elementwise kernels. The momentum kernels read gradient and buffer once and write buffer
// and result once; the step kernels read parameter and update once and write the parameter once.
// ATen moves four times as many bytes.
#include "ops/optim/chunks.cuh"
#include "ops/optim/optim_kernels.h"

namespace tg::cuda {

namespace {

// With `averages`, b is an average of gradients, else their decayed sum.
template <bool averages, typename M, typename G, typename L>
__global__ void __launch_bounds__(kChunkThreads) momentum_kernel(MuonMomentum args) {
  auto* const momentum = static_cast<M*>(args.momentum);
  const bool skip = *args.skip;
  const float mu = skip ? 1.0f : *args.mu, clip = *args.clip;
  for_each_chunk(args.count, [&](std::int64_t first) {
    const auto buffer = load_chunk<M>(momentum, first, args.count);
    const auto g = load_chunk(static_cast<const G*>(args.gradient), first, args.count);
    float gradient[kChunk], values[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      gradient[i] = skip ? 0.0f : g[i] * clip;
      values[i] = mu * buffer[i] + (averages ? (1 - mu) * gradient[i] : gradient[i]);
    }
    const auto b = Pack<M, kChunk>::rounded(values);
    store_chunk(momentum, b, first, args.count);
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      values[i] = mu * b[i] + (averages ? (1 - mu) * gradient[i] : gradient[i]);
    store_chunk(static_cast<L*>(args.lookahead), Pack<L, kChunk>::rounded(values), first,
                args.count);
  });
}

template <bool cautious, typename U>
__global__ void __launch_bounds__(kChunkThreads) step_kernel(MuonStep args) {
  const float rate = *args.rate;
  const float keep = 1.0f - rate * args.decay, decay = rate * args.decay;
  const float step_size = rate * args.scale;
  for_each_chunk(args.count, [&](std::int64_t first) {
    const auto p = load_chunk<float>(args.parameter, first, args.count);
    const auto u = load_chunk(static_cast<const U*>(args.update), first, args.count);
    float values[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if constexpr (cautious) {
        const float decayed = u[i] * p[i] >= 0 ? decay * p[i] : 0.0f;
        values[i] = p[i] - step_size * (u[i] + decayed);
      } else {
        values[i] = p[i] * keep - step_size * u[i];
      }
    }
    store_chunk(args.parameter, Pack<float, kChunk>::rounded(values), first, args.count);
  });
}

}  // namespace

void nesterov_momentum(const MuonMomentum& args, Dtype momentum_dtype, Dtype gradient_dtype,
                       Stream stream) {
  dispatch(momentum_dtype, gradient_dtype, [&](auto m, auto g) {
    using M = decltype(m);
    launch_chunks(momentum_kernel<false, M, decltype(g), M>, args, "nesterov_momentum", stream);
  });
}

void averaged_momentum(const MuonMomentum& args, Dtype gradient_dtype, Dtype lookahead_dtype,
                       Stream stream) {
  dispatch(gradient_dtype, lookahead_dtype, [&](auto g, auto l) {
    launch_chunks(momentum_kernel<true, float, decltype(g), decltype(l)>, args, "averaged_momentum",
                  stream);
  });
}

void decayed_step(const MuonStep& args, Dtype update_dtype, Stream stream) {
  dispatch(update_dtype, [&](auto u) {
    using U = decltype(u);
    launch_chunks(args.cautious ? step_kernel<true, U> : step_kernel<false, U>, args,
                  "decayed_step", stream);
  });
}

}  // namespace tg::cuda
