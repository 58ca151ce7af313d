// The embedding's front end. Forward: reads a table row and a bigram row, writes y; backward: reads
// both and dy, writes dsum and dbigram. A warp has a position in registers and walks some that
// follow each other, so that a neighbour is at hand. Bound by memory.
#include <type_traits>

#include "ops/embedding/token_embedding_kernel.h"
#include "ops/kernels.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kRun = 16;  // positions a warp: one more is read, 6 %

std::int64_t runs_of(std::int64_t batch, std::int64_t length) {
  return batch * ((length + kRun - 1) / kRun);
}

// The positions [begin, end) of one row of `length` that starts at `row`; none for warps beyond the
// last run.
struct Run {
  std::int64_t row, begin = 0, end = 0;
  __device__ Run(std::int64_t batch, std::int64_t length) {
    const std::int64_t run = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
    const std::int64_t runs_a_row = (length + kRun - 1) / kRun;
    row = run / runs_a_row * length;
    if (run >= batch * runs_a_row) return;
    begin = run % runs_a_row * kRun;
    end = begin + kRun < length ? begin + kRun : length;
  }
};

// A lane's columns: packs of 16 bytes, one of each 32; zeros beyond the width.
template <typename T, int kPacks>
struct Row {
  static constexpr int size = Pack<T>::size;
  Pack<T> packs[kPacks];

  static __device__ int column(int j) { return (j * kWarp + threadIdx.x % kWarp) * size; }
  __device__ void clear() {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) packs[j] = {};
  }
  __device__ void load(const T* at, int width) {
    clear();
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (column(j) < width) packs[j] = load_pack(at + column(j));
    }
  }
  __device__ float operator()(int j, int k) const {
    return packs[j][k];
  }
};
template <typename T, int kPacks>
using Values = float[kPacks][Pack<T>::size];

// op(j, k, column) for each of a lane's numbers.
template <typename T, int kPacks, typename Op>
__device__ void each(Op op) {
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) op(j, k, Row<T, kPacks>::column(j) + k);
  }
}
// to[column] = op(j, k).
template <typename T, int kPacks, typename Op>
__device__ void store(T* to, int width, Op op) {
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    float values[Pack<T>::size];
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) values[k] = op(j, k);
    if (Row<T, kPacks>::column(j) < width) store_rounded(to + Row<T, kPacks>::column(j), values);
  }
}

// The row before its norm, x = table[id] + scale·bigram.
template <typename T, int kPacks>
struct TokenSum {
  Row<T, kPacks> token, bigram;

  __device__ TokenSum(const TokenRows& of, std::int64_t position) {
    token.load(static_cast<const T*>(of.table) + of.ids[position] * of.width, of.width);
    if (of.bigram == nullptr) {
      bigram.clear();
    } else {
      bigram.load(static_cast<const T*>(of.bigram) + position * of.width, of.width);
    }
  }
  __device__ float operator()(int j, int k, float scale) const {
    return fmaf(scale, bigram(j, k), token(j, k));
  }
};

template <typename T, int kPacks>
__device__ void load_shares(const TokenRows& of, Values<T, kPacks>& share) {
  each<T, kPacks>([&](int j, int k, int column) {
    share[j][k] = column < of.width ? __fdividef(1.0f, 1 + expf(-of.gate[column])) : 0.0f;
  });
}

template <typename T, int kPacks, bool kSmeared>
__global__ void __launch_bounds__(kWarps* kWarp) forward_kernel(TokenRows of, T* __restrict__ y) {
  const Run run(of.batch, of.length);
  const float scale = of.bigram == nullptr ? 0.0f : *of.bigram_scale;
  const float mean_weight = 1.0f / of.width;
  Values<T, kPacks> share, before = {};
  if (kSmeared) load_shares<T, kPacks>(of, share);
  for (std::int64_t t = run.begin - (kSmeared && run.begin > 0 ? 1 : 0); t < run.end; ++t) {
    const std::int64_t position = run.row + t;
    const TokenSum<T, kPacks> sum(of, position);
    Values<T, kPacks> x;
    float squares = 0;
    each<T, kPacks>([&](int j, int k, int) {
      x[j][k] = sum(j, k, scale);
      squares += x[j][k] * x[j][k];
    });
    const float inverse = rsqrtf(warp_sum(squares) * mean_weight + kNormEpsilon);
    each<T, kPacks>([&](int j, int k, int) { x[j][k] *= inverse; });
    if (t >= run.begin) {
      store<T, kPacks>(y + position * of.width, of.width, [&](int j, int k) {
        return kSmeared ? fmaf(share[j][k], before[j][k] - x[j][k], x[j][k]) : x[j][k];
      });
    }
    if (kSmeared) each<T, kPacks>([&](int j, int k, int) { before[j][k] = x[j][k]; });
  }
}

// With r = x/rms(x) and share s: y_t = (1 − s)·r_t + s·r_{t−1}, so that dr_t = (1 − s)·dy_t +
// s·dy_{t+1} and ds = Σ r_t·(dy_{t+1} − dy_t), where dy is zero behind a row's end.
template <typename T, int kPacks, bool kSmeared>
__global__ void __launch_bounds__(kWarps* kWarp, kSmeared&& kPacks* Pack<T>::size > 16 ? 2 : 4)
    backward_kernel(TokenRows of, TokenGradients gradients) {
  const Run run(of.batch, of.length);
  const int width = of.width, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float scale = of.bigram == nullptr ? 0.0f : *of.bigram_scale;
  const float mean_weight = 1.0f / width;
  const auto* dy = static_cast<const T*>(gradients.dy);
  Values<T, kPacks> share, dshare = {};
  float dscale = 0;
  if (kSmeared) load_shares<T, kPacks>(of, share);
  Row<T, kPacks> now, next;
  if (run.begin < run.end) now.load(dy + (run.row + run.begin) * width, width);
  for (std::int64_t t = run.begin; t < run.end; ++t) {
    const std::int64_t position = run.row + t;
    next.clear();
    if (t + 1 < (kSmeared ? of.length : run.end)) next.load(dy + (position + 1) * width, width);
    const TokenSum<T, kPacks> sum(of, position);
    Values<T, kPacks> x, dx;
    float squares = 0, dot = 0;
    each<T, kPacks>([&](int j, int k, int) {
      x[j][k] = sum(j, k, scale);
      dx[j][k] = now(j, k);
      if (kSmeared) dx[j][k] = fmaf(share[j][k], next(j, k) - now(j, k), now(j, k));
      squares += x[j][k] * x[j][k];
      dot += x[j][k] * dx[j][k];
    });
    const float inverse = rsqrtf(warp_sum(squares) * mean_weight + kNormEpsilon);
    // x's own gradient: dr without its part along x, over rms(x).
    const float along = warp_sum(dot) * mean_weight * inverse * inverse;
    each<T, kPacks>([&](int j, int k, int) {
      dx[j][k] = inverse * (dx[j][k] - along * x[j][k]);
      dscale = fmaf(dx[j][k], sum.bigram(j, k), dscale);
    });
    if (gradients.dsum != nullptr)
      store<T, kPacks>(static_cast<T*>(gradients.dsum) + position * width, width,
                       [&](int j, int k) { return dx[j][k]; });
    if (gradients.dbigram != nullptr)
      store<T, kPacks>(static_cast<T*>(gradients.dbigram) + position * width, width,
                       [&](int j, int k) { return scale * dx[j][k]; });
    if (kSmeared)
      each<T, kPacks>([&](int j, int k, int) {
        dshare[j][k] = fmaf(inverse * x[j][k], next(j, k) - now(j, k), dshare[j][k]);
      });
    now = next;
  }
  if (gradients.partials == nullptr) return;
  extern __shared__ float sums[];  // [width + 1], to which one warp after the other adds its own
  for (int i = threadIdx.x; i <= width; i += kWarps * kWarp) sums[i] = 0;
  dscale = warp_sum(dscale);
  for (int turn = 0; turn < kWarps; ++turn) {
    __syncthreads();
    if (warp != turn) continue;
    each<T, kPacks>([&](int j, int k, int column) {
      if (kSmeared && column < width)
        sums[column] += dshare[j][k] * share[j][k] * (1 - share[j][k]);
    });
    if (lane == 0) sums[width] += dscale;
  }
  __syncthreads();
  for (int i = threadIdx.x; i <= width; i += kWarps * kWarp)
    gradients.partials[std::int64_t{blockIdx.x} * (width + 1) + i] = sums[i];
}

// op(T{}, packs of a lane, smeared), with as few packs as hold the row.
template <typename Op>
void dispatch_row(const TokenRows& of, Op op) {
  dispatch(of.number, [&](auto zero) {
    const auto with_columns = [&](auto columns) {
      const std::integral_constant<int, columns / Pack<decltype(zero)>::size> packs;
      of.gate != nullptr ? op(zero, packs, std::true_type()) : op(zero, packs, std::false_type());
    };
    if (of.width <= 16 * kWarp) return with_columns(std::integral_constant<int, 16>());
    if (of.width <= 24 * kWarp) return with_columns(std::integral_constant<int, 24>());
    with_columns(std::integral_constant<int, kMaxTokenWidth / kWarp>());
  });
}

}  // namespace

std::int64_t token_embedding_blocks(const TokenRows& of) {
  return (runs_of(of.batch, of.length) + kWarps - 1) / kWarps;
}

void token_embedding_forward(const TokenRows& of, void* y, Stream stream) {
  const auto blocks = static_cast<unsigned>(token_embedding_blocks(of));
  dispatch_row(of, [&](auto zero, auto packs, auto smeared) {
    using T = decltype(zero);
    forward_kernel<T, packs, smeared>
        <<<blocks, kWarps * kWarp, 0, stream>>>(of, static_cast<T*>(y));
  });
  check_launch("token_embedding_forward");
}

void token_embedding_backward(const TokenRows& of, const TokenGradients& gradients, Stream stream) {
  const std::int64_t blocks = token_embedding_blocks(of);
  const int columns = of.width + 1;
  dispatch_row(of, [&](auto zero, auto packs, auto smeared) {
    backward_kernel<decltype(zero), packs, smeared>
        <<<static_cast<unsigned>(blocks), kWarps * kWarp, columns * sizeof(float), stream>>>(
            of, gradients);
  });
  check_launch("token_embedding_backward");
  if (gradients.partials == nullptr) return;
  sum_rows(gradients.partials, blocks, columns, gradients.sums, stream);
}

}  // namespace tg::cuda
