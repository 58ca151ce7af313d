// Token embedding, bigram, RMSNorm and smear in one pass. Forward reads a row of the table and of
// the bigrams and writes y; backward reads both and dy and writes dsum and dbigram. A warp has one
// position in registers and walks through consecutive ones, so that smear's neighbour is
// already in registers. Memory-bound.
#include <type_traits>

#include "ops/embedding/token_embedding_kernel.h"
#include "ops/kernels.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kRun = 16;  // consecutive positions per warp; reading one more for smear costs 6 %

std::int64_t runs_of(std::int64_t batch, std::int64_t length) {
  return batch * ((length + kRun - 1) / kRun);
}

// This warp's positions [begin, end) in a sequence whose first position is `sequence_start`; none
// for warps beyond the last run.
struct Run {
  std::int64_t sequence_start, begin = 0, end = 0;
  __device__ Run(std::int64_t batch, std::int64_t length) {
    const std::int64_t run = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
    const std::int64_t runs_per_sequence = (length + kRun - 1) / kRun;
    sequence_start = run / runs_per_sequence * length;
    if (run >= batch * runs_per_sequence) return;
    begin = run % runs_per_sequence * kRun;
    end = begin + kRun < length ? begin + kRun : length;
  }
};

// A lane's packs of a row: every 32nd; zeros beyond the width.
template <typename T, int kPacks>
struct RowPacks {
  static constexpr int size = Pack<T>::size;
  Pack<T> packs[kPacks];

  static __device__ int column(int j) { return (j * kWarp + threadIdx.x % kWarp) * size; }
  __device__ void clear() {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) packs[j] = {};
  }
  __device__ void load(const T* from, int width) {
    clear();
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (column(j) < width) packs[j] = load_pack(from + column(j));
    }
  }
  __device__ float operator()(int j, int k) const {
    return packs[j][k];
  }
};
template <typename T, int kPacks>
using Values = float[kPacks][Pack<T>::size];

// Calls op(j, k, column) for element k of pack j, for all of a lane's elements.
template <typename T, int kPacks, typename Op>
__device__ void for_each_element(Op op) {
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) op(j, k, RowPacks<T, kPacks>::column(j) + k);
  }
}
// to[column] = op(j, k).
template <typename T, int kPacks, typename Op>
__device__ void store_row(T* to, int width, Op op) {
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    float values[Pack<T>::size];
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) values[k] = op(j, k);
    if (RowPacks<T, kPacks>::column(j) < width)
      store_rounded(to + RowPacks<T, kPacks>::column(j), values);
  }
}

// A row before RMSNorm: x = table[id] + scale·bigram.
template <typename T, int kPacks>
struct TokenSum {
  RowPacks<T, kPacks> token, bigram;

  __device__ TokenSum(const TokenEmbeddingArgs& args, std::int64_t position) {
    token.load(static_cast<const T*>(args.table) + args.ids[position] * args.width, args.width);
    if (args.bigram == nullptr) {
      bigram.clear();
    } else {
      bigram.load(static_cast<const T*>(args.bigram) + position * args.width, args.width);
    }
  }
  __device__ float operator()(int j, int k, float scale) const {
    return fmaf(scale, bigram(j, k), token(j, k));
  }
};

// share = σ(gate)
template <typename T, int kPacks>
__device__ void load_shares(const TokenEmbeddingArgs& args, Values<T, kPacks>& share) {
  for_each_element<T, kPacks>([&](int j, int k, int column) {
    share[j][k] = column < args.width ? __fdividef(1.0f, 1 + expf(-args.gate[column])) : 0.0f;
  });
}

template <typename T, int kPacks, bool kSmeared>
__global__ void __launch_bounds__(kWarps* kWarp)
    forward_kernel(TokenEmbeddingArgs args, T* __restrict__ y) {
  const Run run(args.batch, args.length);
  const float scale = args.bigram == nullptr ? 0.0f : *args.bigram_scale;
  const float mean_weight = 1.0f / args.channels;
  Values<T, kPacks> share, previous = {};
  if (kSmeared) load_shares<T, kPacks>(args, share);
  for (std::int64_t t = run.begin - (kSmeared && run.begin > 0 ? 1 : 0); t < run.end; ++t) {
    const std::int64_t position = run.sequence_start + t;
    const TokenSum<T, kPacks> sum(args, position);
    Values<T, kPacks> x;
    float squares = 0;
    for_each_element<T, kPacks>([&](int j, int k, int) {
      x[j][k] = sum(j, k, scale);
      squares += x[j][k] * x[j][k];
    });
    const float inverse_rms = rsqrtf(warp_sum(squares) * mean_weight + kNormEpsilon);
    for_each_element<T, kPacks>([&](int j, int k, int) { x[j][k] *= inverse_rms; });
    if (t >= run.begin) {
      store_row<T, kPacks>(y + position * args.width, args.width, [&](int j, int k) {
        return kSmeared ? fmaf(share[j][k], previous[j][k] - x[j][k], x[j][k]) : x[j][k];
      });
    }
    if (kSmeared) for_each_element<T, kPacks>([&](int j, int k, int) { previous[j][k] = x[j][k]; });
  }
}

// With r = x/rms(x) and share s: y_t = (1 − s)·r_t + s·r_{t−1}. Hence dr_t = (1 − s)·dy_t +
// s·dy_{t+1} and ds = Σ r_t·(dy_{t+1} − dy_t), where dy is zero after the end of the sequence.
template <typename T, int kPacks, bool kSmeared>
__global__ void __launch_bounds__(kWarps* kWarp, kSmeared&& kPacks* Pack<T>::size > 16 ? 2 : 4)
    backward_kernel(TokenEmbeddingArgs args, TokenEmbeddingGradients gradients) {
  const Run run(args.batch, args.length);
  const int width = args.width, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float scale = args.bigram == nullptr ? 0.0f : *args.bigram_scale;
  const float mean_weight = 1.0f / args.channels;
  const auto* dy = static_cast<const T*>(gradients.dy);
  Values<T, kPacks> share, dshare = {};
  float dscale = 0;
  if (kSmeared) load_shares<T, kPacks>(args, share);
  RowPacks<T, kPacks> dy_now, dy_next;
  if (run.begin < run.end) dy_now.load(dy + (run.sequence_start + run.begin) * width, width);
  for (std::int64_t t = run.begin; t < run.end; ++t) {
    const std::int64_t position = run.sequence_start + t;
    dy_next.clear();
    if (t + 1 < (kSmeared ? args.length : run.end))
      dy_next.load(dy + (position + 1) * width, width);
    const TokenSum<T, kPacks> sum(args, position);
    Values<T, kPacks> x, dx;
    float squares = 0, dot = 0;
    for_each_element<T, kPacks>([&](int j, int k, int) {
      x[j][k] = sum(j, k, scale);
      dx[j][k] = dy_now(j, k);
      if (kSmeared) dx[j][k] = fmaf(share[j][k], dy_next(j, k) - dy_now(j, k), dy_now(j, k));
      squares += x[j][k] * x[j][k];
      dot += x[j][k] * dx[j][k];
    });
    const float inverse_rms = rsqrtf(warp_sum(squares) * mean_weight + kNormEpsilon);
    // Through RMSNorm: dx = (dr − r·mean(r·dr)) / rms(x).
    const float x_scale = warp_sum(dot) * mean_weight * inverse_rms * inverse_rms;
    for_each_element<T, kPacks>([&](int j, int k, int) {
      dx[j][k] = inverse_rms * (dx[j][k] - x_scale * x[j][k]);
      dscale = fmaf(dx[j][k], sum.bigram(j, k), dscale);
    });
    if (gradients.dsum != nullptr)
      store_row<T, kPacks>(static_cast<T*>(gradients.dsum) + position * width, width,
                           [&](int j, int k) { return dx[j][k]; });
    if (gradients.dbigram != nullptr)
      store_row<T, kPacks>(static_cast<T*>(gradients.dbigram) + position * width, width,
                           [&](int j, int k) { return scale * dx[j][k]; });
    if (kSmeared)
      for_each_element<T, kPacks>([&](int j, int k, int) {
        dshare[j][k] = fmaf(inverse_rms * x[j][k], dy_next(j, k) - dy_now(j, k), dshare[j][k]);
      });
    dy_now = dy_next;
  }
  if (gradients.partials == nullptr) return;
  extern __shared__ float sums[];  // [width + 1]; the warps add to it one after the other
  for (int i = threadIdx.x; i <= width; i += kWarps * kWarp) sums[i] = 0;
  dscale = warp_sum(dscale);
  for (int adding_warp = 0; adding_warp < kWarps; ++adding_warp) {
    __syncthreads();
    if (warp != adding_warp) continue;
    for_each_element<T, kPacks>([&](int j, int k, int column) {
      if (kSmeared && column < width)
        sums[column] += dshare[j][k] * share[j][k] * (1 - share[j][k]);
    });
    if (lane == 0) sums[width] += dscale;
  }
  __syncthreads();
  for (int i = threadIdx.x; i <= width; i += kWarps * kWarp)
    gradients.partials[std::int64_t{blockIdx.x} * (width + 1) + i] = sums[i];
}

// Calls op(T{}, packs per lane, smeared) with the fewest packs that hold a row.
template <typename Op>
void dispatch_row(const TokenEmbeddingArgs& args, Op op) {
  dispatch(args.dtype, [&](auto zero) {
    const auto with_columns = [&](auto columns) {
      const std::integral_constant<int, columns / Pack<decltype(zero)>::size> packs;
      args.gate != nullptr ? op(zero, packs, std::true_type()) : op(zero, packs, std::false_type());
    };
    if (args.width <= 16 * kWarp) return with_columns(std::integral_constant<int, 16>());
    if (args.width <= 24 * kWarp) return with_columns(std::integral_constant<int, 24>());
    with_columns(std::integral_constant<int, kMaxTokenWidth / kWarp>());
  });
}

}  // namespace

std::int64_t token_embedding_blocks(const TokenEmbeddingArgs& args) {
  return (runs_of(args.batch, args.length) + kWarps - 1) / kWarps;
}

void token_embedding_forward(const TokenEmbeddingArgs& args, void* y, Stream stream) {
  const auto blocks = static_cast<unsigned>(token_embedding_blocks(args));
  dispatch_row(args, [&](auto zero, auto packs, auto smeared) {
    using T = decltype(zero);
    forward_kernel<T, packs, smeared>
        <<<blocks, kWarps * kWarp, 0, stream>>>(args, static_cast<T*>(y));
  });
  check_launch("token_embedding_forward");
}

void token_embedding_backward(const TokenEmbeddingArgs& args,
                              const TokenEmbeddingGradients& gradients, Stream stream) {
  const std::int64_t blocks = token_embedding_blocks(args);
  const int columns = args.width + 1;
  dispatch_row(args, [&](auto zero, auto packs, auto smeared) {
    backward_kernel<decltype(zero), packs, smeared>
        <<<static_cast<unsigned>(blocks), kWarps * kWarp, columns * sizeof(float), stream>>>(
            args, gradients);
  });
  check_launch("token_embedding_backward");
  if (gradients.partials == nullptr) return;
  sum_rows(gradients.partials, blocks, columns, gradients.sums, stream);
}

}  // namespace tg::cuda
