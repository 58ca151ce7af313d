// NorMuon's normalization in two passes: the first sums x² by column or by row, from which both
// norms of a matrix follow; the second scales x.
#include "ops/optim/chunks.cuh"
#include "ops/optim/optim_kernels.h"

namespace tg::cuda {

namespace {

constexpr int kWarps = kChunkThreads / kWarp;
constexpr int kPartRows = 64;  // of a matrix that a CTA sums by column
constexpr float kLeast = 1e-10f;

// A CTA sums kPartRows rows of 32 chunks of columns: each warp every eighth row.
template <typename T>
__global__ void __launch_bounds__(kChunkThreads)
    column_sums_kernel(SecondMoments args, int parts, float* __restrict__ partials) {
  __shared__ float sums[kWarps][kWarp * kChunk];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + lane) * kChunk;
  const std::int64_t matrix = blockIdx.y / parts, part = blockIdx.y % parts;
  const std::int64_t first = part * kPartRows;
  const std::int64_t end = first + kPartRows < args.rows ? first + kPartRows : args.rows;
  const T* const x = static_cast<const T*>(args.x) + matrix * args.rows * args.columns;
  float own[kChunk] = {};
  if (column < args.columns) {
    for (std::int64_t row = first + warp; row < end; row += kWarps) {
      const auto pack = load_pack<T, kChunk>(x + row * args.columns + column);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) own[i] += pack[i] * pack[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i) sums[warp][lane * kChunk + i] = own[i];
  __syncthreads();
  const std::int64_t mine = std::int64_t{blockIdx.x} * kWarp * kChunk + threadIdx.x;
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += sums[w][threadIdx.x];
  if (mine < args.columns) partials[std::int64_t{blockIdx.y} * args.columns + mine] = sum;
}

// A warp sums a row.
template <typename T>
__global__ void __launch_bounds__(kChunkThreads)
    row_sums_kernel(SecondMoments args, float* __restrict__ sums) {
  const int lane = threadIdx.x % kWarp;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= args.matrices * args.rows) return;
  const T* const x = static_cast<const T*>(args.x) + row * args.columns;
  float sum = 0;
  for (std::int64_t column = lane * kChunk; column < args.columns; column += kWarp * kChunk) {
    const auto pack = load_pack<T, kChunk>(x + column);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) sum += pack[i] * pack[i];
  }
  sum = warp_sum(sum);
  if (lane == 0) sums[row] = sum;
}

// Sum over the CTA; every thread gets it.
__device__ float block_sum(float value) {
  __shared__ float warps[kWarps];
  __syncthreads();  // before `warps` is written again
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  float total = 0;
  for (const float of_warp : warps) total += of_warp;
  return total;
}

// A CTA a matrix: updates q and writes the factor of each of its columns or rows, with
// ‖y‖² = Σ (Σ x²)/q over them.
__global__ void __launch_bounds__(kChunkThreads)
    scales_kernel(SecondMoments args, const float* __restrict__ partials, std::int64_t parts,
                  float* __restrict__ scales) {
  const std::int64_t kept = args.kept, matrix = blockIdx.x;
  const auto averaged = static_cast<float>(args.of_rows ? args.columns : args.rows);
  const float weight = *args.skip ? 0.0f : static_cast<float>(1 - args.beta2);
  const float* const own = partials + matrix * parts * kept;
  float* const q = args.q + matrix * kept;
  float* const scale = scales + matrix * kept;
  float before = 0, after = 0;
  for (std::int64_t i = threadIdx.x; i < kept; i += kChunkThreads) {
    float sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += own[part * kept + i];
    q[i] += weight * (sum / averaged - q[i]);
    scale[i] = rsqrtf(fmaxf(q[i], kLeast));
    before += sum;
    after += sum * scale[i] * scale[i];
  }
  const float factor = sqrtf(block_sum(before)) / fmaxf(sqrtf(block_sum(after)), kLeast);
  for (std::int64_t i = threadIdx.x; i < kept; i += kChunkThreads) scale[i] *= factor;
}

template <typename T>
__global__ void __launch_bounds__(kChunkThreads)
    scale_kernel(SecondMoments args, const float* __restrict__ scales, T* __restrict__ out) {
  const T* const x = static_cast<const T*>(args.x);
  const std::int64_t count = args.matrices * args.rows * args.columns;
  for_each_chunk(count, [&](std::int64_t first) {
    const std::int64_t row = first / args.columns;  // of all matrices
    const auto pack = load_pack<T, kChunk>(x + first);
    float values[kChunk];
    if (args.of_rows) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i) values[i] = pack[i] * scales[row];
    } else {
      const std::int64_t column = first - row * args.columns;
      const auto scale = load_pack<float, kChunk>(scales + row / args.rows * args.columns + column);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) values[i] = pack[i] * scale[i];
    }
    store_pack(out + first, Pack<T, kChunk>::rounded(values));
  });
}

}  // namespace

void normalize_variance(const SecondMoments& args, void* out, Dtype dtype,
                        const Workspace& workspace, Stream stream) {
  const std::int64_t count = args.matrices * args.rows * args.columns;
  if (count == 0) return;
  const auto parts = args.of_rows ? 1 : (args.rows + kPartRows - 1) / kPartRows;
  const auto kept = args.matrices * args.kept;
  float* const scales = workspace((1 + parts) * kept);  // [matrices, kept]
  float* const partials = scales + kept;                // [matrices, parts, kept]
  const auto blocks = [](std::int64_t items, int per_block) {
    return static_cast<unsigned>((items + per_block - 1) / per_block);
  };
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (args.of_rows) {
      row_sums_kernel<T>
          <<<blocks(args.matrices * args.rows, kWarps), kChunkThreads, 0, stream>>>(args, partials);
    } else {
      const dim3 grid(blocks(args.columns, kWarp * kChunk),
                      static_cast<unsigned>(parts * args.matrices));
      column_sums_kernel<T>
          <<<grid, kChunkThreads, 0, stream>>>(args, static_cast<int>(parts), partials);
    }
    scales_kernel<<<static_cast<unsigned>(args.matrices), kChunkThreads, 0, stream>>>(
        args, partials, parts, scales);
    scale_kernel<T>
        <<<chunk_blocks(count), kChunkThreads, 0, stream>>>(args, scales, static_cast<T*>(out));
  });
  check_launch("normalize_variance");
}

}  // namespace tg::cuda
