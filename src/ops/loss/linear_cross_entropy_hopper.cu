// The head's GEMM with the softcap, the exponential and its row sums in the epilogue, and kernels
// on [N, D] that normalise what the GEMMs of its gradient read and write. A tile's
// epilogue takes less than half of the other consumer's mainloop at D of 768, which hides it.
#include <cmath>

#include "ops/gemm/hopper/fp8_tile.cuh"
#include "ops/loss/linear_cross_entropy_hopper.h"
#include "ops/loss/softcap_row.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;
using T = __nv_bfloat16;

// With e4m3 operands the epilogue writes more, and has registers for it in a narrower tile.
template <typename Operand>
constexpr int kBlockN = sizeof(Operand) == 1 ? 128 : 192;
constexpr int block_n_of(bool in_fp8) {
  return in_fp8 ? kBlockN<__nv_fp8_e4m3> : kBlockN<T>;
}

// D = e^(s−cap)·(ds/dz)/4, s the softcapped accumulators z; partial_sums [tiles along N, rows] =
// the sums of e^(s−cap) over a tile's columns. Columns from `vocab` on are 0, and so is each row's
// target: 1 − p of one that is nearly certain would be lost in p. Each adds e^(−2·cap) to a sum,
// which finish_rows_kernel() subtracts. Rows after the last are 0, too.
// In FP8 both are divided by the scale of D, in e5m2: the range of e^s counts more than a bit.
template <typename TOperand>
struct SoftmaxGradientEpilogue {
  static constexpr bool in_fp8 = sizeof(TOperand) == 1;
  using Element = std::conditional_t<in_fp8, __nv_fp8_e5m2, T>;
  using Operand = TOperand;
  static constexpr int block_n = kBlockN<TOperand>;
  static constexpr bool n_major_b = false, reads_c = false;
  Softcap softcap;
  int rows, vocab;
  const std::int64_t* targets;
  float* partial_sums;
  OperandScales scales{};
  Fp8Rows fp8_rows{};

  __device__ auto tile_softcap() const {
    if constexpr (in_fp8)
      return ScaledSoftcap(softcap, scales.product(), *fp8_rows.copy.scale);
    else
      return softcap;
  }

  struct Tile {
    const SoftmaxGradientEpilogue& of;
    ThreadRows rows;
    int tile_n;
    // Columns of the tile that are tokens, and each row's target, less this thread's first column.
    int valid, targets[kWgmmaTiles][2];
    decltype(std::declval<SoftmaxGradientEpilogue>().tile_softcap()) softcap;
    OutputTile<Element> output;
    float sums[kWgmmaTiles][2] = {};

    __device__ Tile(const SoftmaxGradientEpilogue& epilogue, const TileInfo& tile)
        : of(epilogue),
          rows(tile),
          tile_n(tile.column / block_n),
          valid(epilogue.vocab - tile.column - static_cast<int>(threadIdx.x) % 4 * 2),
          softcap(epilogue.tile_softcap()),
          output(epilogue.fp8_rows, tile.row, tile.column) {
      rows.for_each([&](int mma, int half, int row) {
        const auto target = epilogue.targets[min(row, epilogue.rows - 1)];
        targets[mma][half] = static_cast<int>(target) - epilogue.vocab + valid;
      });
    }

    // Makes −∞ of logits of columns that are no token, of the rows' targets and of rows after the
    // last: a weight of e^(−2·cap), and a gradient of 0. Seldom: few tiles have any.
    __device__ void transform(Accumulators<block_n>& accumulators) const {
      bool masks = valid < block_n;
      rows.for_each([&](int mma, int half, int row) {
        const unsigned target = targets[mma][half];
        // One thread of the row has its target.
        masks |= row >= of.rows || (target < block_n && target % 8 < 2);
      });
      if (!masks) return;
#pragma unroll
      for (int column = 0; column < block_n; ++column) {
        if (column % 8 >= 2) continue;
        // Without an index that is known at run time only, which would put the accumulators into
        // memory.
        rows.for_each([&](int mma, int half, int row) {
          if (column >= valid || column == targets[mma][half] || row >= of.rows)
            accumulators.mma[mma].values[column / 8 * 4 + 2 * half + column % 8] = -INFINITY;
        });
      }
    }

    __device__ void store_subtile(int subtile, int mma, const float* accumulators,
                                  const SubtileView<Element>& smem) {
      store_each(output, smem, subtile, accumulators, [&](float logit, int row) {
        float weight, slope;
        softcap_weight(logit, softcap, weight, slope);
        sums[mma][row] += weight;
        return weight * slope;
      });
    }
    __device__ void end_subtile(int subtile) const {
      if (subtile != block_n / kSubtileN - 1) return;
      output.end();
      rows.for_each_sum(sums, of.rows, [&](int row, float sum) {
        of.partial_sums[std::int64_t{tile_n} * of.rows + row] = sum;
      });
    }
  };
};

using P = Pack<T>;
// A warp has a row of a matrix [., dim].
template <typename Visit>
__device__ void for_packs(int dim, Visit visit) {
  for (int i = static_cast<int>(threadIdx.x) % kWarp * P::size; i < dim; i += kWarp * P::size)
    visit(i);
}

// A factor that may be absent.
__device__ float value_or_one(const float* factor) {
  return factor == nullptr ? 1 : *factor;
}

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kFinishRows = kWarp;  // of a block

// Adds up a row's partial sums of `width` columns and its target's part, whose logit it computes
// once more, in FP8 of the 16-bit operands.
__global__ void __launch_bounds__(kThreads)
    finish_rows_kernel(LinearCrossEntropy of, Softcap softcap,
                       const float* __restrict__ partial_sums, int tiles, int width,
                       float* __restrict__ nll) {
  const float scale = value_or_one(of.fp8.copy.scale);
  __shared__ float partial[kWarps][kFinishRows];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first_row = blockIdx.x * kFinishRows;
  float sum = 0;
  if (first_row + lane < of.rows) {
    for (int tile = warp; tile < tiles; tile += kWarps)
      sum += partial_sums[std::int64_t{tile} * of.rows + first_row + lane];
  }
  partial[warp][lane] = sum;
  __syncthreads();
  for (int r = warp; r < kFinishRows && first_row + r < of.rows; r += kWarps) {
    const std::int64_t row = first_row + r, target = of.targets[row];
    const bool is_token = target >= 0 && target < of.vocab;
    const auto masked = static_cast<float>(width - of.vocab + is_token) * expf(-2 * softcap.cap);
    const float sum_of_row = scale * warp_sum(lane < kWarps ? partial[lane][r] : 0);
    const float others = sum_of_row > masked ? sum_of_row - masked : sum_of_row;
    const T* const x = static_cast<const T*>(of.x) + row * of.dim;
    const T* const w = static_cast<const T*>(of.weight) + (is_token ? target : 0) * of.dim;
    float dot = 0;
    for_packs(of.dim, [&](int i) {
      const P a = load_pack(x + i), b = load_pack(w + i);
#pragma unroll
      for (int k = 0; k < P::size; ++k) dot += a[k] * b[k];
    });
    const Single<float> logit{warp_sum(dot)};
    if (lane != 0) continue;
    float weight[1], slope[1];
    softcap_weights<T>(logit, softcap, weight, slope);
    const float total = others + weight[0];
    nll[row] = is_token ? log1pf(others / weight[0]) : NAN;
    of.inverse_sum[row] = 1 / total;
    of.target_factor[row] = is_token ? others / total * 4 * slope[0] : 0;
  }
}

__device__ float read(const NllGradient& c) {
  return c.host * value_or_one(c.grad_scale);
}
__device__ std::int64_t first_row() {
  return (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
}
__device__ std::int64_t row_step() {
  return std::int64_t{gridDim.x} * kWarps;
}

// Rows of x times by·c·factors.
__global__ void __launch_bounds__(kThreads)
    scale_rows_kernel(LinearCrossEntropy of, NllGradient gradient, float by,
                      const float* __restrict__ factors, T* __restrict__ scaled_rows) {
  const float c = by * read(gradient);
  for (std::int64_t row = first_row(); row < of.rows; row += row_step()) {
    const float factor = c * factors[row];
    const T* const x = static_cast<const T*>(of.x) + row * of.dim;
    for_packs(of.dim, [&](int i) {
      const P pack = load_pack(x + i);
      float scaled[P::size];
#pragma unroll
      for (int k = 0; k < P::size; ++k) scaled[k] = pack[k] * factor;
      store_rounded(scaled_rows + row * of.dim + i, scaled);
    });
  }
}

__global__ void __launch_bounds__(kThreads)
    finish_input_gradient_kernel(LinearCrossEntropy of, NllGradient gradient,
                                 const T* __restrict__ product, T* __restrict__ dx) {
  const float c = read(gradient);
  for (std::int64_t row = first_row(); row < of.rows; row += row_step()) {
    const float share = 4 * c * of.inverse_sum[row], hit = c * of.target_factor[row];
    const std::int64_t target = of.targets[row];
    const bool is_token = target >= 0 && target < of.vocab;  // else `hit` is 0
    const T* const w = static_cast<const T*>(of.weight) + (is_token ? target : 0) * of.dim;
    for_packs(of.dim, [&](int i) {
      const auto at = row * of.dim + i;
      const P pack = load_pack(product + at), at_target = load_pack(w + i);
      float finished[P::size];
#pragma unroll
      for (int k = 0; k < P::size; ++k) finished[k] = pack[k] * share - hit * at_target[k];
      store_rounded(dx + at, finished);
    });
  }
}

int blocks_of(const LinearCrossEntropy& of) {
  return blocks_for((std::int64_t{of.rows} + kWarps - 1) / kWarps, 8);
}

}  // namespace

int cross_entropy_partial_sums(int width, bool in_fp8) {
  const int block_n = block_n_of(in_fp8);
  return (width + block_n - 1) / block_n;
}

void linear_cross_entropy(const LinearCrossEntropy& of, float* partial_sums, float* nll,
                          Stream stream) {
  if (of.rows == 0) return;
  const Softcap softcap(of.cap);
  const bool in_fp8 = of.fp8.scale_a != nullptr;
  const GemmProblem problem{.m = of.rows,
                            .n = of.width,
                            .k = of.dim,
                            .a = of.gemm_x,
                            .b = of.gemm_weight,
                            .d = in_fp8 ? of.transposed : of.unnormalised};
  const auto run = [&](auto operand) {
    const SoftmaxGradientEpilogue<decltype(operand)> epilogue{softcap,
                                                              of.rows,
                                                              of.vocab,
                                                              of.targets,
                                                              partial_sums,
                                                              operand_scales(of.fp8),
                                                              {of.fp8.copy, of.rows, of.width}};
    launch_gemm(problem, epilogue, "linear_cross_entropy", stream);
  };
  if (in_fp8)
    run(__nv_fp8_e4m3{});
  else
    run(T{});
  const int tiles = cross_entropy_partial_sums(of.width, in_fp8);
  finish_rows_kernel<<<(of.rows + kFinishRows - 1) / kFinishRows, kThreads, 0, stream>>>(
      of, softcap, partial_sums, tiles, tiles * block_n_of(in_fp8), nll);
  check_launch("linear_cross_entropy");
}

void scale_inputs(const LinearCrossEntropy& of, const NllGradient& c, void* x_scaled,
                  Stream stream) {
  if (of.rows == 0) return;
  scale_rows_kernel<<<blocks_of(of), kThreads, 0, stream>>>(of, c, /*by=*/4, of.inverse_sum,
                                                            static_cast<T*>(x_scaled));
  check_launch("scale_inputs");
}

void scale_target_inputs(const LinearCrossEntropy& of, const NllGradient& c, void* target_rows,
                         Stream stream) {
  if (of.rows == 0) return;
  scale_rows_kernel<<<blocks_of(of), kThreads, 0, stream>>>(of, c, /*by=*/-1, of.target_factor,
                                                            static_cast<T*>(target_rows));
  check_launch("scale_target_inputs");
}

void finish_input_gradient(const LinearCrossEntropy& of, const NllGradient& c, const void* product,
                           void* dx, Stream stream) {
  if (of.rows == 0) return;
  finish_input_gradient_kernel<<<blocks_of(of), kThreads, 0, stream>>>(
      of, c, static_cast<const T*>(product), static_cast<T*>(dx));
  check_launch("finish_input_gradient");
}

}  // namespace tg::cuda
