// Segmented sum of rows by id in two kernels, load-balanced for ids of any frequency. The ids are
// sorted; each thread sums the runs of equal ids in one chunk and reads every row once. Runs that
// cross chunks write a partial sum per chunk, which the second kernel adds up.
#include "ops/embedding/embedding_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

namespace {

constexpr int kThreads = 128;
// Sorted ids per thread, for one pack of columns. Longer chunks leave the GPU idle with the
// narrowest tables, shorter ones write more partial sums.
constexpr int kChunk = 64;
constexpr int kSumBlocks = 5;      // per SM: all of them at once for 49,152 rows of 768
constexpr int kLoadsInFlight = 4;  // per thread: rows, and the sums that they are added to

std::int64_t num_chunks(std::int64_t count) {
  return (count + kChunk - 1) / kChunk;
}

// A thread's chunk [begin, end) and first column; consecutive threads have consecutive columns.
template <typename T>
struct ThreadWork {
  std::int64_t chunk, begin, end;
  int column;
  __device__ ThreadWork(std::int64_t count, int width) {
    const int packs = width / Pack<T>::size;
    const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    chunk = thread / packs;
    column = static_cast<int>(thread - chunk * packs) * Pack<T>::size;
    begin = chunk * kChunk;
    end = begin + kChunk < count ? begin + kChunk : count;
  }
};

// Computes to[k] = before[k] + sum[k], without atomics: each row of the gradient has one writer.
template <int kSize>
__device__ void store_sum(float* to, const Pack<float, kSize>& before, const float (&sum)[kSize]) {
  float after[kSize];
#pragma unroll
  for (int k = 0; k < kSize; ++k) after[k] = before[k] + sum[k];
  store_rounded(to, after);
}

// Sums the runs of each chunk. Complete runs go to `gradient`, others to partials [chunks, 2,
// width]: row 0 for a run that began in an earlier chunk, row 1 for one that begins here and
// continues in the next.
template <typename T>
__global__ void __launch_bounds__(kThreads, kSumBlocks)
    sum_runs_kernel(const T* __restrict__ rows, const std::int32_t* __restrict__ ids,
                    const std::int64_t* __restrict__ order, std::int64_t count, int width,
                    float* __restrict__ partials, float* __restrict__ gradient) {
  constexpr int kSize = Pack<T>::size;
  const ThreadWork<T> work(count, width);
  if (work.begin >= count) return;
  int id = ids[work.begin];
  bool began_before = work.begin > 0 && ids[work.begin - 1] == id;
  float sum[kSize] = {};
  for (std::int64_t first = work.begin; first < work.end; first += kLoadsInFlight) {
    Pack<T> loaded[kLoadsInFlight];
    Pack<float, kSize> before[kLoadsInFlight];
    int next_ids[kLoadsInFlight];
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      const std::int64_t i = first + k;
      if (i >= work.end) continue;
      loaded[k] = load_pack(rows + order[i] * width + work.column);
      next_ids[k] = i + 1 < count ? ids[i + 1] : -1;
    }
    // Now, since a load that waits for the sum would leave one access in flight where ids are rare.
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      const int own = k == 0 ? id : next_ids[k - 1];
      if (first + k < work.end && next_ids[k] != own)
        before[k] = load_pack<float, kSize>(gradient + std::int64_t{own} * width + work.column);
    }
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      const std::int64_t i = first + k;
      if (i >= work.end) continue;
#pragma unroll
      for (int l = 0; l < kSize; ++l) sum[l] += loaded[k][l];
      const bool continues = next_ids[k] == id;
      if (continues && i + 1 < work.end) continue;
      if (began_before || continues) {
        store_rounded(partials + (2 * work.chunk + (began_before ? 0 : 1)) * width + work.column,
                      sum);
      } else {
        store_sum(gradient + std::int64_t{id} * width + work.column, before[k], sum);
      }
#pragma unroll
      for (int l = 0; l < kSize; ++l) sum[l] = 0;
      began_before = false;
      id = next_ids[k];
    }
  }
}

// Adds up the partial sums of each run that spans chunks, in the threads of the chunk in which it
// begins.
__global__ void __launch_bounds__(kThreads)
    join_runs_kernel(const std::int32_t* __restrict__ ids, std::int64_t count, int width,
                     const float* __restrict__ partials, float* __restrict__ gradient) {
  constexpr int kSize = Pack<float>::size;
  const ThreadWork<float> work(count, width);
  if (work.end >= count) return;  // also threads without a chunk
  const int id = ids[work.end];
  if (ids[work.end - 1] != id) return;
  if (work.begin > 0 && ids[work.begin - 1] == id) return;
  std::int64_t low = work.chunk + 1, high = (count + kChunk - 1) / kChunk;
  while (low + 1 < high) {  // chunk `low` begins in the run, chunk `high` does not
    const std::int64_t middle = (low + high) / 2;
    (ids[middle * kChunk] == id ? low : high) = middle;
  }
  const float* column_partials = partials + work.column;
  const auto first_partial = load_pack(column_partials + (2 * work.chunk + 1) * width);
  float sum[kSize];
#pragma unroll
  for (int l = 0; l < kSize; ++l) sum[l] = first_partial[l];
  for (std::int64_t first = work.chunk + 1; first < high; first += kLoadsInFlight) {
    Pack<float> loaded[kLoadsInFlight] = {};
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      if (first + k < high) loaded[k] = load_pack(column_partials + 2 * (first + k) * width);
    }
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
#pragma unroll
      for (int l = 0; l < kSize; ++l) sum[l] += loaded[k][l];
    }
  }
  float* const to = gradient + std::int64_t{id} * width + work.column;
  store_sum(to, load_pack<float, kSize>(to), sum);
}

}  // namespace

void embedding_gradient(const EmbeddingRows& args, float* gradient, const Workspace& workspace,
                        Stream stream) {
  if (args.count == 0) return;
  float* const partials = workspace(2 * num_chunks(args.count) * args.width);
  const auto blocks = [&](int columns) {
    const std::int64_t threads = num_chunks(args.count) * (args.width / columns);
    return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  };
  dispatch(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    sum_runs_kernel<T><<<blocks(Pack<T>::size), kThreads, 0, stream>>>(
        static_cast<const T*>(args.rows), args.ids, args.order, args.count, args.width, partials,
        gradient);
  });
  check_launch("embedding_gradient");
  join_runs_kernel<<<blocks(Pack<float>::size), kThreads, 0, stream>>>(
      args.ids, args.count, args.width, partials, gradient);
  check_launch("embedding_gradient");
}

}  // namespace tg::cuda
