// Kernels of the fused head: the gradient of a chunk's logits, and on [N, D] those that apply the
// softmax's normalisation to the inputs and outputs of the gradient GEMMs.
#include <cmath>

#include "ops/gemm/fp8.cuh"
#include "ops/gemm/fp8_tile.cuh"
#include "ops/loss/linear_cross_entropy_kernel.h"
#include "ops/loss/softcap_row.cuh"

namespace tg::cuda {

namespace {

using T = __nv_bfloat16;
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

// A CTA computes whole rows. G needs no normalisation, so that each element is read and written
// once. In FP8, G and the sums are divided by G's scale.
template <bool in_fp8>
__global__ void __launch_bounds__(kThreads)
    softmax_gradient_kernel(LinearCrossEntropy args, Softcap unscaled, const T* logits,
                            float* __restrict__ sums) {
  const float scale = in_fp8 ? *args.fp8.copy.scale : 1;
  const ScaledSoftcap softcap(unscaled, /*factor=*/1, scale);
  const float masked_weight = fast_exp2(softcap.exponent(1));  // e^(−2·cap)
  float amax = 0;
  __shared__ RowSum::Shared partial;
  RowSum row_sum(partial);
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const std::int64_t target = args.targets[row * args.target_count];
    float sum = 0;
#pragma unroll 4
    for (int i = threadIdx.x * P::size; i < args.width; i += kThreads * P::size) {
      const auto at = row * args.width + i;
      float weight[P::size], slope[P::size], g[P::size];
      softcap_weights<T>(load_pack(logits + at), softcap, weight, slope);
      const bool masks = i + P::size > args.vocab || (target >= i && target < i + P::size);
#pragma unroll
      for (int k = 0; k < P::size; ++k) {
        if (masks && (i + k >= args.vocab || i + k == target))
          weight[k] = masked_weight, slope[k] = 0;
        sum += weight[k];
        g[k] = weight[k] * slope[k];
      }
      if constexpr (in_fp8)
        store_fp8<__nv_fp8_e5m2>(static_cast<unsigned char*>(args.unnormalised) + at, g,
                                 /*factor=*/1, amax);
      else
        store_rounded(static_cast<T*>(args.unnormalised) + at, g);
    }
    const float total = row_sum(sum);
    if (threadIdx.x == 0) sums[row] = total;
  }
  if constexpr (in_fp8) raise_amax(args.fp8.copy.amax, amax * scale);
}

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

// Adds a row's partial sums and its first target's term, whose logit it recomputes like the other
// targets' (from the 16-bit operands also in FP8).
__global__ void __launch_bounds__(kThreads)
    finish_rows_kernel(LinearCrossEntropy args, Softcap softcap, const float* __restrict__ sums,
                       SoftmaxSums layout, RowLosses losses) {
  const float scale = value_or_one(args.fp8.copy.scale);
  __shared__ float partial[kWarps][kFinishRows];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int first_row = blockIdx.x * kFinishRows;
  float sum = 0;
  if (first_row + lane < args.rows) {
    for (int part = warp; part < layout.parts; part += kWarps)
      sum += sums[std::int64_t{part} * args.rows + first_row + lane];
  }
  partial[warp][lane] = sum;
  __syncthreads();
  for (int r = warp; r < kFinishRows && first_row + r < args.rows; r += kWarps) {
    const std::int64_t row = first_row + r, first = row * args.target_count;
    const bool known = is_token(args, args.targets[first]);
    const auto masked =
        static_cast<float>(layout.columns - args.vocab + known) * expf(-2 * softcap.cap);
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

// Computes the rows of scale_rows_kernel, rounded as it stores them, in e4m3 and transposed.
__global__ void __launch_bounds__(kTileThreads)
    scale_rows_to_fp8_kernel(LinearCrossEntropy args, RowGradient gradient, float multiplier,
                             TiledMatrix matrix, Fp8Copy transposed) {
  __shared__ Fp8Tile tile;
  const TilePlace place(matrix);
  const float c = multiplier * load_gradient(gradient), inverse_scale = 1 / *transposed.scale;
  float amax = 0;
  place.for_each_chunk([&](int row, int chunk, std::int64_t at) {
    uint4& rounded = tile.chunk(row, chunk);
    rounded = make_uint4(0, 0, 0, 0);
    if (at < 0) return;
    const auto x = load_pack<T, kFp8Chunk>(static_cast<const T*>(args.x) + at);
    const float factor = c * args.inverse_sum[std::int64_t{blockIdx.x} * kTile + row];
    float scaled[kFp8Chunk];
#pragma unroll
    for (int i = 0; i < kFp8Chunk; ++i) scaled[i] = x[i] * factor;
    rounded = fp8_chunk(Pack<T, kFp8Chunk>::rounded(scaled), inverse_scale, amax);
  });
  raise_amax(transposed.amax, amax);
  __syncthreads();
  place.store_transposed(tile, static_cast<unsigned char*>(transposed.values));
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

void softmax_gradient(const LinearCrossEntropy& args, const void* logits, float* sums,
                      Stream stream) {
  if (args.rows == 0) return;
  const bool in_fp8 = args.fp8.copy.values != nullptr;
  const auto kernel = in_fp8 ? softmax_gradient_kernel<true> : softmax_gradient_kernel<false>;
  kernel<<<blocks_for(args.rows, 8), kThreads, 0, stream>>>(args, Softcap(args.softcap),
                                                            static_cast<const T*>(logits), sums);
  check_launch("softmax_gradient");
}

void finish_rows(const LinearCrossEntropy& args, const float* sums, const SoftmaxSums& layout,
                 const RowLosses& losses, Stream stream) {
  if (args.rows == 0) return;
  finish_rows_kernel<<<(args.rows + kFinishRows - 1) / kFinishRows, kThreads, 0, stream>>>(
      args, Softcap(args.softcap), sums, layout, losses);
  check_launch("finish_rows");
}

void scale_inputs(const LinearCrossEntropy& args, const RowGradient& c, void* x_scaled,
                  Stream stream) {
  if (args.rows == 0) return;
  scale_rows_kernel<<<grid_size(args), kThreads, 0, stream>>>(args, c, Softcap(args.softcap).gain,
                                                              args.inverse_sum, /*stride=*/1,
                                                              static_cast<T*>(x_scaled));
  check_launch("scale_inputs");
}

void scale_inputs_to_fp8(const LinearCrossEntropy& args, const RowGradient& c,
                         const Fp8Copy& transposed, Stream stream) {
  if (args.rows == 0) return;
  const TiledMatrix matrix{args.rows, args.dim};
  scale_rows_to_fp8_kernel<<<matrix.grid(), kTileThreads, 0, stream>>>(
      args, c, Softcap(args.softcap).gain, matrix, transposed);
  check_launch("scale_inputs_to_fp8");
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
