// Sums of rows by id, in two steps, so that ids of any frequency fill the GPU: every row is read
// once; runs of one id that cross a chunk of sorted places leave a partial sum in each.
#include "ops/embedding/embedding_gradient_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;
// Sorted places that one thread adds up, for one pack of columns. Longer chunks leave the GPU idle
// at the narrowest tables, shorter ones leave more partial sums.
constexpr int kChunk = 64;
constexpr int kAhead = 8;  // accesses of a thread under way at a time

std::int64_t chunks_of(std::int64_t count) {
  return (count + kChunk - 1) / kChunk;
}

// A thread's place: neighbours have neighbouring columns of one chunk.
template <typename T>
struct Place {
  std::int64_t chunk, begin, end;
  int column;
  __device__ Place(std::int64_t count, int width) {
    const int packs = width / Pack<T>::size;
    const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
    chunk = thread / packs;
    column = static_cast<int>(thread - chunk * packs) * Pack<T>::size;
    begin = chunk * kChunk;
    end = begin + kChunk < count ? begin + kChunk : count;
  }
};

// partials [chunks, 2, width]: of a run that began in an earlier chunk, and of one that goes on in
// the next. Where a chunk lies within a run it is the former.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sum_runs_kernel(const T* __restrict__ rows, const std::int32_t* __restrict__ ids,
                    const std::int64_t* __restrict__ order, std::int64_t count, int width,
                    float* __restrict__ partials, T* __restrict__ gradient) {
  constexpr int kSize = Pack<T>::size;
  const Place<T> at(count, width);
  if (at.begin >= count) return;
  int id = ids[at.begin];
  bool goes_back = at.begin > 0 && ids[at.begin - 1] == id;
  float sum[kSize] = {};
  for (std::int64_t first = at.begin; first < at.end; first += kAhead) {
    Pack<T> ahead[kAhead];
    int ids_after[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t i = first + k;
      if (i >= at.end) continue;
      ahead[k] = load_pack(rows + order[i] * width + at.column);
      ids_after[k] = i + 1 < count ? ids[i + 1] : -1;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t i = first + k;
      if (i >= at.end) continue;
#pragma unroll
      for (int l = 0; l < kSize; ++l) sum[l] += ahead[k][l];
      const bool goes_on = ids_after[k] == id;
      if (goes_on && i + 1 < at.end) continue;
      if (goes_back || goes_on) {
        store_rounded(partials + (2 * at.chunk + (goes_back ? 0 : 1)) * width + at.column, sum);
      } else {
        store_rounded(gradient + std::int64_t{id} * width + at.column, sum);
      }
#pragma unroll
      for (int l = 0; l < kSize; ++l) sum[l] = 0;
      goes_back = false;
      id = ids_after[k];
    }
  }
}

// For each run of several chunks, in the threads of the chunk where it begins.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    join_runs_kernel(const std::int32_t* __restrict__ ids, std::int64_t count, int width,
                     const float* __restrict__ partials, T* __restrict__ gradient) {
  constexpr int kSize = Pack<float>::size;
  const Place<float> at(count, width);
  if (at.end >= count) return;  // also where begin is beyond it
  const int id = ids[at.end];
  if (ids[at.end - 1] != id) return;
  if (at.begin > 0 && ids[at.begin - 1] == id) return;
  std::int64_t low = at.chunk + 1, high = (count + kChunk - 1) / kChunk;
  while (low + 1 < high) {  // chunk `low` begins within the run, chunk `high` does not
    const std::int64_t middle = (low + high) / 2;
    (ids[middle * kChunk] == id ? low : high) = middle;
  }
  const float* from = partials + at.column;
  const auto own = load_pack(from + (2 * at.chunk + 1) * width);
  float sum[kSize];
#pragma unroll
  for (int l = 0; l < kSize; ++l) sum[l] = own[l];
  for (std::int64_t first = at.chunk + 1; first < high; first += kAhead) {
    Pack<float> ahead[kAhead] = {};
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k < high) ahead[k] = load_pack(from + 2 * (first + k) * width);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
#pragma unroll
      for (int l = 0; l < kSize; ++l) sum[l] += ahead[k][l];
    }
  }
  store_rounded(gradient + std::int64_t{id} * width + at.column, sum);
}

}  // namespace

std::int64_t embedding_partials(std::int64_t count) {
  return 2 * chunks_of(count);
}

void embedding_gradient(const LookedUpRows& of, float* partials, void* gradient, Stream stream) {
  if (of.count == 0) return;
  dispatch(of.number, [&](auto zero) {
    using T = decltype(zero);
    const auto blocks = [&](int columns) {
      const std::int64_t threads = chunks_of(of.count) * (of.width / columns);
      return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
    };
    auto* table = static_cast<T*>(gradient);
    sum_runs_kernel<T><<<blocks(Pack<T>::size), kThreads, 0, stream>>>(
        static_cast<const T*>(of.rows), of.ids, of.order, of.count, of.width, partials, table);
    check_launch("embedding_gradient");
    join_runs_kernel<T><<<blocks(Pack<float>::size), kThreads, 0, stream>>>(
        of.ids, of.count, of.width, partials, table);
  });
  check_launch("embedding_gradient");
}

}  // namespace tg::cuda
