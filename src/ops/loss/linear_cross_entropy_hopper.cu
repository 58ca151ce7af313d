// The head's GEMM with softcap, exponential and row sums in the epilogue, and kernels on [N, D]
// that apply the softmax's normalisation to the inputs and outputs of the gradient GEMMs. With D =
// 768 a tile's epilogue takes less than half as long as the other consumer's mainloop, which hides
// it.
#include <cmath>

#include "ops/gemm/hopper/fp8_tile.cuh"
#include "ops/loss/linear_cross_entropy_hopper.h"
#include "ops/loss/softcap_row.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;
using T = __nv_bfloat16;

// With e4m3 operands the epilogue writes two outputs; a narrower tile leaves registers for that.
template <typename Operand>
constexpr int kBlockN = sizeof(Operand) == 1 ? 128 : 192;
constexpr int block_n_of(bool in_fp8) {
  return in_fp8 ? kBlockN<__nv_fp8_e4m3> : kBlockN<T>;
}

// Computes D = e^(s−cap)·(1 − tanh²)/4, with s the softcapped accumulators z, and partial_sums
// [tiles along N, rows], the sums of e^(s−cap) over a tile's columns. D is 0 in columns from
// `vocab` on, in rows beyond the last, and at each row's first target: for a target with p close to
// 1, 1 − p would be lost to cancellation. Each masked element adds e^(−2·cap) to its sum, which
// finish_rows_kernel() subtracts. In FP8, both outputs are divided by D's scale, and D is in e5m2:
// the range of e^s matters more than a mantissa bit.
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
  int target_count;
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
    const SoftmaxGradientEpilogue& gemm_epilogue;
    ThreadRows rows;
    int tile_n;
    // Number of vocabulary columns in the tile, and each row's target column, both relative to this
    // thread's first column.
    int valid, targets[kWgmmaTiles][2];
    decltype(std::declval<SoftmaxGradientEpilogue>().tile_softcap()) softcap;
    OutputTile<Element> output;
    float sums[kWgmmaTiles][2] = {};

    __device__ Tile(const SoftmaxGradientEpilogue& epilogue, const TileInfo& tile)
        : gemm_epilogue(epilogue),
          rows(tile),
          tile_n(tile.column / block_n),
          valid(epilogue.vocab - tile.column - static_cast<int>(threadIdx.x) % 4 * 2),
          softcap(epilogue.tile_softcap()),
          output(epilogue.fp8_rows, tile.row, tile.column) {
      rows.for_each([&](int mma, int half, int row) {
        const auto target =
            epilogue.targets[std::int64_t{min(row, epilogue.rows - 1)} * epilogue.target_count];
        targets[mma][half] = static_cast<int>(target) - epilogue.vocab + valid;
      });
    }

    // Masks logits with −∞ in columns beyond the vocabulary, at the rows' targets and in rows
    // beyond the last: this gives e^(−2·cap) in the sum, and a gradient of 0. Few tiles need it.
    __device__ void transform(Accumulators<block_n>& accumulators) const {
      bool masks = valid < block_n;
      rows.for_each([&](int mma, int half, int row) {
        const unsigned target = targets[mma][half];
        // Only one of a row's threads holds its target.
        masks |= row >= gemm_epilogue.rows || (target < block_n && target % 8 < 2);
      });
      if (!masks) return;
#pragma unroll
      for (int column = 0; column < block_n; ++column) {
        if (column % 8 >= 2) continue;
        // No run-time indexing, which would move the accumulators to local memory.
        rows.for_each([&](int mma, int half, int row) {
          if (column >= valid || column == targets[mma][half] || row >= gemm_epilogue.rows)
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
      rows.for_each_sum(sums, gemm_epilogue.rows, [&](int row, float sum) {
        gemm_epilogue.partial_sums[std::int64_t{tile_n} * gemm_epilogue.rows + row] = sum;
      });
    }
  };
};

using P = Pack<T>;
// Calls visit(offset) for each of this lane's packs of a row [dim]; one warp per row.
template <typename Visit>
__device__ void for_packs(int dim, Visit visit) {
  for (int i = static_cast<int>(threadIdx.x) % kWarp * P::size; i < dim; i += kWarp * P::size)
    visit(i);
}

// Loads an optional factor.
__device__ float value_or_one(const float* factor) {
  return factor == nullptr ? 1 : *factor;
}

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kFinishRows = kWarp;  // rows per CTA

// x·W[target], by a warp.
__device__ float target_logit(const LinearCrossEntropy& args, std::int64_t row,
                              std::int64_t target) {
  const T* const x = static_cast<const T*>(args.x) + row * args.dim;
  const T* const w = static_cast<const T*>(args.weight) + target * args.dim;
  float dot = 0;
  for_packs(args.dim, [&](int i) {
    const P a = load_pack(x + i), b = load_pack(w + i);
#pragma unroll
    for (int k = 0; k < P::size; ++k) dot += a[k] * b[k];
  });
  return warp_sum(dot);
}

__device__ bool is_token(const LinearCrossEntropy& args, std::int64_t target) {
  return target >= 0 && target < args.vocab;
}

// Adds a row's partial sums over `width` columns and its first target's term, whose logit it
// recomputes like the other targets' (from the 16-bit operands also in FP8).
__global__ void __launch_bounds__(kThreads)
    finish_rows_kernel(LinearCrossEntropy args, Softcap softcap,
                       const float* __restrict__ partial_sums, int tiles, int width,
                       RowLosses losses) {
  const float scale = value_or_one(args.fp8.copy.scale);
  __shared__ float partial[kWarps][kFinishRows];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first_row = blockIdx.x * kFinishRows;
  float sum = 0;
  if (first_row + lane < args.rows) {
    for (int tile = warp; tile < tiles; tile += kWarps)
      sum += partial_sums[std::int64_t{tile} * args.rows + first_row + lane];
  }
  partial[warp][lane] = sum;
  __syncthreads();
  for (int r = warp; r < kFinishRows && first_row + r < args.rows; r += kWarps) {
    const std::int64_t row = first_row + r, first = row * args.target_count;
    const bool known = is_token(args, args.targets[first]);
    const auto masked = static_cast<float>(width - args.vocab + known) * expf(-2 * softcap.cap);
    const float row_sum = scale * warp_sum(lane < kWarps ? partial[lane][r] : 0);
    const float others = row_sum > masked ? row_sum - masked : row_sum;
    const Single<float> logit{target_logit(args, row, known ? args.targets[first] : 0)};
    float weight[1], slope[1];
    softcap_weights<T>(logit, softcap, weight, slope);
    const float total = others + weight[0];
    const float mass = args.mass == nullptr ? 1 : args.mass[row];
    const float first_weight = args.weights == nullptr ? 1 : args.weights[first];
    const float nll = known ? log1pf(others / weight[0]) : NAN;
    float loss = args.weights == nullptr ? nll : first_weight * nll;
    if (lane == 0) {
      losses.nll[row] = nll;
      args.inverse_sum[row] = mass / total;
      args.target_factor[first] =
          known ? (first_weight - mass + mass * (others / total)) * softcap.gain * slope[0] : 0;
    }
    for (int k = 1; k < args.target_count; ++k) {
      const float w = args.weights[first + k];
      if (w == 0) {
        if (lane == 0) args.target_factor[first + k] = 0;
        continue;
      }
      const Single<float> other{target_logit(args, row, args.targets[first + k])};
      softcap_weights<T>(other, softcap, weight, slope);
      loss += w * logf(total / weight[0]);
      if (lane == 0) args.target_factor[first + k] = w * softcap.gain * slope[0];
    }
    if (lane == 0) losses.loss[row] = loss;
  }
}

__device__ float load_gradient(const RowGradient& c) {
  return c.host * value_or_one(c.grad_scale);
}
__device__ std::int64_t first_row() {
  return (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
}
__device__ std::int64_t row_step() {
  return std::int64_t{gridDim.x} * kWarps;
}

// Computes scaled_rows = multiplier·c·factors[row·stride] ⊙ x, per row.
__global__ void __launch_bounds__(kThreads)
    scale_rows_kernel(LinearCrossEntropy args, RowGradient gradient, float multiplier,
                      const float* __restrict__ factors, int stride, T* __restrict__ scaled_rows) {
  const float c = multiplier * load_gradient(gradient);
  for (std::int64_t row = first_row(); row < args.rows; row += row_step()) {
    const float factor = c * factors[row * stride];
    const T* const x = static_cast<const T*>(args.x) + row * args.dim;
    for_packs(args.dim, [&](int i) {
      const P pack = load_pack(x + i);
      float scaled[P::size];
#pragma unroll
      for (int k = 0; k < P::size; ++k) scaled[k] = pack[k] * factor;
      store_rounded(scaled_rows + row * args.dim + i, scaled);
    });
  }
}

__global__ void __launch_bounds__(kThreads)
    finish_input_gradient_kernel(LinearCrossEntropy args, RowGradient gradient, float gain,
                                 const T* __restrict__ unnormalised_dx, T* __restrict__ dx) {
  const float c = load_gradient(gradient);
  for (std::int64_t row = first_row(); row < args.rows; row += row_step()) {
    const float row_factor = gain * c * args.inverse_sum[row];
    const std::int64_t first = row * args.target_count;
    const auto target_row = [&](int k) {
      const std::int64_t target = args.targets[first + k];  // if no token, its factor is 0
      return static_cast<const T*>(args.weight) + (is_token(args, target) ? target : 0) * args.dim;
    };
    const T* const first_row_of_w = target_row(0);
    const float first_factor = c * args.target_factor[first];
    for_packs(args.dim, [&](int i) {
      const auto at = row * args.dim + i;
      const P pack = load_pack(unnormalised_dx + at), at_target = load_pack(first_row_of_w + i);
      float finished[P::size];
#pragma unroll
      for (int k = 0; k < P::size; ++k)
        finished[k] = pack[k] * row_factor - first_factor * at_target[k];
      for (int target = 1; target < args.target_count; ++target) {
        const float factor = c * args.target_factor[first + target];
        if (factor == 0) continue;
        const P at_other = load_pack(target_row(target) + i);
#pragma unroll
        for (int k = 0; k < P::size; ++k) finished[k] -= factor * at_other[k];
      }
      store_rounded(dx + at, finished);
    });
  }
}

int grid_size(const LinearCrossEntropy& args) {
  return blocks_for((std::int64_t{args.rows} + kWarps - 1) / kWarps, 8);
}

}  // namespace

int cross_entropy_partial_sums(int width, bool in_fp8) {
  const int block_n = block_n_of(in_fp8);
  return (width + block_n - 1) / block_n;
}

void linear_cross_entropy(const LinearCrossEntropy& args, float* partial_sums,
                          const RowLosses& losses, Stream stream) {
  if (args.rows == 0) return;
  const Softcap softcap(args.softcap);
  const bool in_fp8 = args.fp8.scale_a != nullptr;
  const GemmProblem problem{.m = args.rows,
                            .n = args.width,
                            .k = args.dim,
                            .a = args.gemm_x,
                            .b = args.gemm_weight,
                            .d = in_fp8 ? args.transposed : args.unnormalised};
  const auto run = [&](auto operand) {
    const SoftmaxGradientEpilogue<decltype(operand)> epilogue{
        softcap,
        args.rows,
        args.vocab,
        args.targets,
        args.target_count,
        partial_sums,
        operand_scales(args.fp8),
        {args.fp8.copy, args.rows, args.width}};
    launch_gemm(problem, epilogue, "linear_cross_entropy", stream);
  };
  if (in_fp8)
    run(__nv_fp8_e4m3{});
  else
    run(T{});
  const int tiles = cross_entropy_partial_sums(args.width, in_fp8);
  finish_rows_kernel<<<(args.rows + kFinishRows - 1) / kFinishRows, kThreads, 0, stream>>>(
      args, softcap, partial_sums, tiles, tiles * block_n_of(in_fp8), losses);
  check_launch("linear_cross_entropy");
}

void scale_inputs(const LinearCrossEntropy& args, const RowGradient& c, void* x_scaled,
                  Stream stream) {
  if (args.rows == 0) return;
  scale_rows_kernel<<<grid_size(args), kThreads, 0, stream>>>(args, c, Softcap(args.softcap).gain,
                                                              args.inverse_sum, /*stride=*/1,
                                                              static_cast<T*>(x_scaled));
  check_launch("scale_inputs");
}

void scale_target_inputs(const LinearCrossEntropy& args, const RowGradient& c, int k,
                         void* target_rows, Stream stream) {
  if (args.rows == 0) return;
  scale_rows_kernel<<<grid_size(args), kThreads, 0, stream>>>(
      args, c, /*multiplier=*/-1, args.target_factor + k, args.target_count,
      static_cast<T*>(target_rows));
  check_launch("scale_target_inputs");
}

void finish_input_gradient(const LinearCrossEntropy& args, const RowGradient& c,
                           const void* unnormalised_dx, void* dx, Stream stream) {
  if (args.rows == 0) return;
  finish_input_gradient_kernel<<<grid_size(args), kThreads, 0, stream>>>(
      args, c, Softcap(args.softcap).gain, static_cast<const T*>(unnormalised_dx),
      static_cast<T*>(dx));
  check_launch("finish_input_gradient");
}

}  // namespace tg::cuda
