// The residual sums, mix and norm between two products: every tensor that the formula names is read
// or written once, x' included, and a row stays in registers in between. Bound by memory.
#include "ops/norm/residual_norm_kernel.h"
#include "ops/norm/row_lanes.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

constexpr int kMaxWarps = 16;
static_assert(kResidualNormWidth == kBlockRowWarps * kSpan);

// Of one lane and span. Read again for every row: they hit L1, and would fill the registers.
struct Parameters {
  Eight<float> branch_scale, skip_weight, mix0, mix1;
};
__device__ inline Eight<float> parameter(const float* at, bool vector, float absent, int column) {
  if (at != nullptr && vector) return load_pack<float, kLaneWidth>(at + column);
  const unsigned same = __float_as_uint(at == nullptr ? absent : *at);
  return {{same, same, same, same, same, same, same, same}};
}
__device__ inline Parameters parameters(const ResidualNormTerms& terms, int width, int column) {
  const bool vector = terms.mix_is_vector;
  const float* mix1 = terms.mix == nullptr ? nullptr : terms.mix + (vector ? width : 1);
  return {parameter(terms.branch_scale, true, 1, column),
          parameter(terms.skip_weight, true, 0, column), parameter(terms.mix, vector, 1, column),
          parameter(mix1, vector, 0, column)};
}

// The same roundings wherever it is inlined: backward meets forward's x' to the bit.
struct Sums {
  float sum, total, residual;  // s, t, x'
};
__device__ inline Sums add_terms(float x, float branch, float skip, float x0, const Parameters& p,
                                 int i) {
  const float sum = fmaf(p.branch_scale[i], branch, x);
  const float total = fmaf(p.skip_weight[i], skip, sum);
  return {sum, total, fmaf(p.mix0[i], total, p.mix1[i] * x0)};
}

struct Forward {
  ResidualNormTerms terms;
  ResidualNormRows rows;
  void *sum, *residual, *y;
};

constexpr int kForwardWarps = 8;

template <typename Tile>
__global__ void __launch_bounds__(kForwardWarps* kWarp) forward_kernel(const Forward args) {
  using T = typename Tile::T;
  const int width = args.rows.width, column = Tile::column();
  for (auto row = Tile::first_row(); row < args.rows.count; row += Tile::row_step()) {
    const auto at = row * width + column;
    const auto x = Tile::load_row(args.terms.x, at, width);
    const auto branch = Tile::load_row(args.terms.branch, at, width);
    const auto skip = Tile::load_row(args.terms.skip, at, width);
    const auto x0 = Tile::load_row(args.terms.x0, at, width);
    typename Tile::Row residual;
    float squares = 0;
#pragma unroll
    for (int k = 0; k < Tile::spans; ++k) {
      residual.spans[k] = {};
      if (column + k * kSpan >= width) continue;
      const auto p = parameters(args.terms, width, column + k * kSpan);
      float sum[kLaneWidth], mixed[kLaneWidth];
#pragma unroll
      for (int i = 0; i < kLaneWidth; ++i) {
        const auto sums =
            add_terms(x.spans[k][i], branch.spans[k][i], skip.spans[k][i], x0.spans[k][i], p, i);
        sum[i] = sums.sum;
        mixed[i] = sums.residual;
      }
      Tile::store_span(args.sum, at, k, sum);
      Tile::store_span(args.residual, at, k, mixed);
      residual.spans[k] = Eight<T>::rounded(mixed);
#pragma unroll
      for (int i = 0; i < kLaneWidth; ++i)
        squares = fmaf(residual.spans[k][i], residual.spans[k][i], squares);
    }
    const float mean = Tile::row_sum(squares) / static_cast<float>(width);
    const float scale = args.rows.norm_scale * rsqrtf(mean + kNormEpsilon);
#pragma unroll
    for (int k = 0; k < Tile::spans; ++k) {
      if (column + k * kSpan >= width) continue;
      float y[kLaneWidth];
#pragma unroll
      for (int i = 0; i < kLaneWidth; ++i) y[i] = residual.spans[k][i] * scale;
      Tile::store_span(args.y, at, k, y);
    }
  }
}

// A block's part of one parameter vector's gradient: its warps' sums, in their order.
template <typename Tile, int kCount>
__device__ inline void write_vector(const float (&sums)[Tile::spans][kLaneWidth], int width,
                                    float* out) {
  const int column = Tile::column();
  if constexpr (Tile::block_row) {
    if (column >= width) return;
#pragma unroll
    for (int i = 0; i < kLaneWidth; ++i) out[column + i] = sums[0][i];
  } else {
    __shared__ float warps[kCount][Tile::spans * kSpan];
    __syncthreads();  // the vector before has been read
#pragma unroll
    for (int k = 0; k < Tile::spans; ++k)
#pragma unroll
      for (int i = 0; i < kLaneWidth; ++i)
        warps[threadIdx.x / kWarp][column + k * kSpan + i] = sums[k][i];
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < width; c += kCount * kWarp) {
      float sum = 0;
      for (int warp = 0; warp < kCount; ++warp) sum += warps[warp][c];
      out[c] = sum;
    }
  }
}
// The same of a scalar mix.
__device__ inline void write_pair(float first, float second, float* out) {
  __shared__ float warps[2][kMaxWarps];
  first = warp_sum(first);
  second = warp_sum(second);
  if (threadIdx.x % kWarp == 0) {
    warps[0][threadIdx.x / kWarp] = first;
    warps[1][threadIdx.x / kWarp] = second;
  }
  __syncthreads();
  if (threadIdx.x >= 2) return;
  float sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) sum += warps[threadIdx.x][warp];
  out[threadIdx.x] = sum;
}

struct Backward {
  ResidualNormTerms terms;
  ResidualNormRows rows;
  ResidualNormGradients gradients;
  std::int64_t columns;
  float* partials;  // [blocks, columns]
};

// Registers hold a row of eight tensors and the parameter gradients, up to kVectors of them (see
// residual_norm_vectors). One block fills a multiprocessor with as many warps as they leave room
// for: each block is a row more for sum_rows.
template <typename Tile, int kVectors>
constexpr int kBackwardWarps = Tile::block_row                    ? kBlockRowWarps
                               : Tile::spans*(4 + kVectors) <= 12 ? 16
                               : Tile::spans*(4 + kVectors) <= 15 ? 12
                                                                  : 8;

template <typename Tile, int kVectors>
__global__ void __launch_bounds__(kBackwardWarps<Tile, kVectors>* kWarp)
    backward_kernel(const Backward args) {
  using T = typename Tile::T;
  ResidualNormTerms terms = args.terms;
  if constexpr (kVectors < 1) terms.branch_scale = nullptr;
  if constexpr (kVectors < 3) terms.mix_is_vector = false;
  if constexpr (kVectors < 4) terms.skip = nullptr, terms.skip_weight = nullptr;
  const bool mixed = terms.mix != nullptr;
  const auto& upstream = args.gradients;
  const int width = args.rows.width, column = Tile::column();
  constexpr int kBranchScale = 0, kMix0 = 1, kMix1 = 2, kSkipWeight = 3;
  float vectors[kVectors > 0 ? kVectors : 1][Tile::spans][kLaneWidth] = {};
  float pair[2] = {};

  for (auto row = Tile::first_row(); row < args.rows.count; row += Tile::row_step()) {
    const auto at = row * width + column;
    auto x = Tile::load_row(terms.x, at, width);
    auto branch = Tile::load_row(terms.branch, at, width);
    auto skip = Tile::load_row(terms.skip, at, width);
    auto x0 = Tile::load_row(terms.x0, at, width);
    auto dy = Tile::load_row(upstream.dy, at, width);
    auto dresidual = Tile::load_row(upstream.dresidual, at, width);
    auto dsum = Tile::load_row(upstream.dsum, at, width);
    auto dx0_later = Tile::load_row(upstream.dx0_later, at, width);

    // Computed here and again below, for the want of registers; x' as forward rounded it.
    const auto sums_of = [&](int k, int i, const Parameters& p) {
      if (!mixed) return Sums{0, 0, x.spans[k][i]};
      auto sums =
          add_terms(x.spans[k][i], branch.spans[k][i], skip.spans[k][i], x0.spans[k][i], p, i);
      sums.residual = static_cast<float>(static_cast<T>(sums.residual));
      return sums;
    };
    float squares = 0, products = 0;
#pragma unroll
    for (int k = 0; k < Tile::spans; ++k) {
      if (column + k * kSpan >= width) continue;
      const auto p = parameters(terms, width, column + k * kSpan);
#pragma unroll
      for (int i = 0; i < kLaneWidth; ++i) {
        const float residual = sums_of(k, i, p).residual;
        squares = fmaf(residual, residual, squares);
        products = fmaf(residual, dy.spans[k][i], products);
      }
    }
    // y = c·r·x' with r = 1/√(mean(x'²) + ε): dx' = c·r·(dy − x'·r²·mean(x'·dy)).
    const float inverse = 1 / static_cast<float>(width);
    const float root = rsqrtf(Tile::row_sum(squares) * inverse + kNormEpsilon);
    const float scale = args.rows.norm_scale * root;
    const float along = Tile::row_sum(products) * inverse * root * root;
    for (auto* kept : {&x, &branch, &skip, &x0, &dy, &dresidual, &dsum, &dx0_later})
      Tile::keep_packed(*kept);
    __syncwarp();  // else the parameters stay in registers from above

#pragma unroll
    for (int k = 0; k < Tile::spans; ++k) {
      if (column + k * kSpan >= width) continue;
      const auto p = parameters(terms, width, column + k * kSpan);
      float dx[kLaneWidth], dbranch[kLaneWidth], dskip[kLaneWidth], dx0[kLaneWidth];
#pragma unroll
      for (int i = 0; i < kLaneWidth; ++i) {
        const auto sums = sums_of(k, i, p);
        const float dnorm = fmaf(-along, sums.residual, dy.spans[k][i]);
        const float g = fmaf(scale, dnorm, dresidual.spans[k][i]);
        const float dtotal = p.mix0[i] * g;
        const float ds = dtotal + dsum.spans[k][i];
        dx[i] = ds;
        dbranch[i] = p.branch_scale[i] * ds;
        dskip[i] = p.skip_weight[i] * dtotal;
        dx0[i] = fmaf(p.mix1[i], g, dx0_later.spans[k][i]);
        if constexpr (kVectors > kBranchScale) {
          float& sum = vectors[kBranchScale][k][i];
          sum = fmaf(ds, branch.spans[k][i], sum);
        }
        if constexpr (kVectors > kSkipWeight) {
          float& sum = vectors[kSkipWeight][k][i];
          sum = fmaf(dtotal, skip.spans[k][i], sum);
        }
        if (kVectors > kMix1 && terms.mix_is_vector) {
          float &sum0 = vectors[kMix0][k][i], &sum1 = vectors[kMix1][k][i];
          sum0 = fmaf(g, sums.total, sum0);
          sum1 = fmaf(g, x0.spans[k][i], sum1);
        } else {
          pair[0] = fmaf(g, sums.total, pair[0]);
          pair[1] = fmaf(g, x0.spans[k][i], pair[1]);
        }
      }
      Tile::store_span(upstream.dx, at, k, dx);
      Tile::store_span(upstream.dbranch, at, k, dbranch);
      Tile::store_span(upstream.dskip, at, k, dskip);
      Tile::store_span(upstream.dx0, at, k, dx0);
    }
  }

  float* partials = args.partials + blockIdx.x * args.columns;
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    write_vector<Tile, kBackwardWarps<Tile, kVectors>>(vectors[v], width,
                                                       partials + std::int64_t{v} * width);
  if (mixed && !terms.mix_is_vector)
    write_pair(pair[0], pair[1], partials + std::int64_t{kVectors} * width);
}

// op(Tile) for the type and width. fp32 takes twice the registers for a row, hence a block for it.
template <typename Op>
void dispatch_tile(const ResidualNormRows& rows, Op op) {
  dispatch(rows.number, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2) {
      if (rows.width <= 2 * kSpan) return op(Tile<T, 2>{});
      if (rows.width <= 3 * kSpan) return op(Tile<T, 3>{});
    }
    op(Tile<T, 1>{});
  });
}

struct BackwardLaunch {
  void (*kernel)(Backward);
  int threads, rows_per_block;
};
BackwardLaunch backward_launch(const ResidualNormTerms& terms, const ResidualNormRows& rows) {
  BackwardLaunch launch{};
  dispatch_tile(rows, [&](auto tile) {
    using Tile = decltype(tile);
    const auto take = [&]<int kVectors>() {
      const int threads = Tile::threads(rows.width, kBackwardWarps<Tile, kVectors>);
      launch = {backward_kernel<Tile, kVectors>, threads, Tile::rows_per_block(threads)};
    };
    switch (residual_norm_vectors(terms)) {
      case 0:
        return take.template operator()<0>();
      case 1:
        return take.template operator()<1>();
      case 3:
        return take.template operator()<3>();
      default:
        return take.template operator()<4>();
    }
  });
  return launch;
}

}  // namespace

void residual_norm_forward(const ResidualNormTerms& terms, const ResidualNormRows& rows, void* sum,
                           void* residual, void* y, Stream stream) {
  dispatch_tile(rows, [&](auto tile) {
    using Tile = decltype(tile);
    const int threads = Tile::threads(rows.width, kForwardWarps);
    const int rows_per_block = Tile::rows_per_block(threads);
    const int blocks = blocks_for((rows.count + rows_per_block - 1) / rows_per_block, 32);
    forward_kernel<Tile><<<blocks, threads, 0, stream>>>(Forward{terms, rows, sum, residual, y});
  });
  check_launch("residual_norm_forward");
}

int residual_norm_blocks(const ResidualNormTerms& terms, const ResidualNormRows& rows) {
  const auto launch = backward_launch(terms, rows);
  int resident = 1;  // a block more would wait for another, and leave a row more to sum
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, launch.kernel, launch.threads, 0);
  return blocks_for((rows.count + launch.rows_per_block - 1) / launch.rows_per_block, resident);
}

void residual_norm_backward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                            const ResidualNormGradients& gradients, int blocks, float* partials,
                            float* parameter_sums, Stream stream) {
  const auto launch = backward_launch(terms, rows);
  const auto columns = residual_norm_columns(terms, rows);
  launch.kernel<<<blocks, launch.threads, 0, stream>>>(
      Backward{terms, rows, gradients, columns, partials});
  check_launch("residual_norm_backward");
  if (columns > 0) sum_rows(partials, blocks, columns, parameter_sums, stream);
}

}  // namespace tg::cuda
