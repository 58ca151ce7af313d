// Softcapped cross-entropy: the logits are read once and, for the gradient, written once in place,
// while a row waits in shared memory, in fp32, for its sum. Bound by memory at 16 bits, if only
// just: hence as few special functions as possible, and a loop that reads the next row, computes
// this one and writes the one before. Rows too wide for shared memory, or not of whole packs of 16
// bytes, are read twice.
#include <algorithm>

#include "ops/loss/softcap_cross_entropy_kernel.h"
#include "ops/loss/softcap_row.cuh"

namespace tg::cuda {

namespace {

constexpr int kPacks = 7;      // of a row, a thread
constexpr int kWarpPacks = 4;  // where a warp has the row and every lane as many

// A pack of each blockDim.x is a thread's, of kCount at most; at kWarpPacks a warp has the row,
// without an end to look for. Only the thread that puts a number into shared memory takes it out.
template <typename T, bool kGradient, int kCount>
__global__ void __launch_bounds__(kMaxThreads)
    read_once_kernel(T* logits, const std::int64_t* __restrict__ targets, std::int64_t rows,
                     int vocab, Softcap softcap, float scale, float* __restrict__ nll) {
  using P = Pack<T>;
  extern __shared__ float4 kept[];  // [P::size / 4][packs]: weight·slope
  constexpr bool kWhole = kCount == kWarpPacks;
  const int threads = kWhole ? kWarp : static_cast<int>(blockDim.x), packs = vocab / P::size;
  const auto there = [&](int j) {
    return kWhole || j * threads + static_cast<int>(threadIdx.x) < packs;
  };
  const int offset = threadIdx.x * P::size, step = threads * P::size;

  T* behind = nullptr;  // the row whose gradient waits in shared memory
  float factor = 0;
  Late<T> at_target;
  const auto write_behind = [&](int j) {
    float dz[P::size];
#pragma unroll
    for (int k = 0; k < P::size; k += 4) {
      const float4 four = kept[k / 4 * packs + j * threads + threadIdx.x];
      dz[k] = four.x * factor;
      dz[k + 1] = four.y * factor;
      dz[k + 2] = four.z * factor;
      dz[k + 3] = four.w * factor;
    }
    store_rounded(behind + offset + j * step, dz);
  };

  std::int64_t row = blockIdx.x;
  P ahead[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j)
    if (there(j)) ahead[j] = load_pack(logits + row * vocab + offset + j * step);
  std::int64_t next_target = targets[row];
  __shared__ RowSum::Shared sums;
  RowSum row_sum(sums);
  for (; row < rows; row += gridDim.x) {
    T* z = logits + row * vocab;
    // Behind the last row stands that row again: cheaper than a question at each pack.
    const std::int64_t next = row + gridDim.x < rows ? row + gridDim.x : row;
    const T* next_z = logits + next * vocab + offset;
    Target<T> target(z, next_target, vocab, P::size, threads);
    next_target = targets[next];
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (!there(j)) continue;
      if (kGradient && behind != nullptr) write_behind(j);
      float weight[P::size], slope[P::size];
      weigh<T>(ahead[j], softcap, weight, slope);
      ahead[j] = load_pack(next_z + j * step);
#pragma unroll
      for (int k = 0; k < P::size; ++k) sum += weight[k];
      if constexpr (kGradient) {
#pragma unroll
        for (int k = 0; k < P::size; k += 4)
          kept[k / 4 * packs + j * threads + threadIdx.x] =
              make_float4(weight[k] * slope[k], weight[k + 1] * slope[k + 1],
                          weight[k + 2] * slope[k + 2], weight[k + 3] * slope[k + 3]);
      }
    }
    const float total = row_sum(sum);
    target.write_nll(nll + row, total, softcap);
    if constexpr (kGradient) {
      at_target.write();
      at_target = target.gradient(z, total, scale);
      behind = z;
      factor = 4 * scale / total;
    }
  }
  if (kGradient && behind != nullptr) {
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      if (there(j)) write_behind(j);
    at_target.write();
  }
}

template <typename T, typename P, bool kGradient>
__global__ void __launch_bounds__(kMaxThreads)
    read_twice_kernel(T* logits, const std::int64_t* __restrict__ targets, std::int64_t rows,
                      int vocab, Softcap softcap, float scale, float* __restrict__ nll) {
  const int first = threadIdx.x * P::size, step = blockDim.x * P::size;
  __shared__ RowSum::Shared sums;
  RowSum row_sum(sums);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* z = logits + row * vocab;
    Target<T> target(z, targets[row], vocab, P::size, blockDim.x);
    float weight[P::size], slope[P::size], sum = 0;
#pragma unroll 4
    for (int i = first; i < vocab; i += step) {
      weigh<T>(load<P>(z + i), softcap, weight, slope);
#pragma unroll
      for (int k = 0; k < P::size; ++k) sum += weight[k];
    }
    const float total = row_sum(sum);
    target.write_nll(nll + row, total, softcap);
    if constexpr (kGradient) {
      const float factor = 4 * scale / total;
#pragma unroll 4
      for (int i = first; i < vocab; i += step) {
        weigh<T>(load<P>(z + i), softcap, weight, slope);
        float dz[P::size];
#pragma unroll
        for (int k = 0; k < P::size; ++k) dz[k] = weight[k] * slope[k] * factor;
        store<P>(z + i, dz);
      }
      target.gradient(z, total, scale).write();
    }
  }
}

template <typename T>
__global__ void scale_kernel(T* x, std::int64_t count, const float* __restrict__ factor) {
  using P = Pack<T>;
  const float by = *factor;
  if (by == 1) return;
  const std::int64_t packs = count / P::size;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = thread; i < packs; i += std::int64_t{gridDim.x} * blockDim.x) {
    const P pack = load_pack(x + i * P::size);
    float scaled[P::size];
#pragma unroll
    for (int k = 0; k < P::size; ++k) scaled[k] = pack[k] * by;
    store_rounded(x + i * P::size, scaled);
  }
  const std::int64_t i = packs * P::size + thread;
  if (i < count) x[i] = static_cast<T>(static_cast<float>(x[i]) * by);
}

// Shared memory that a block may ask for, besides what it has by declaration.
int shared_memory_limit() {
  static const int limit = [] {
    int device = 0, bytes = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return bytes - static_cast<int>(sizeof(RowSum::Shared));
  }();
  return limit;
}

// Threads for `packs` at so many a thread, in whole warps.
int threads_for(int packs, int packs_each) {
  return std::min(kMaxThreads, (packs + kWarp * packs_each - 1) / (kWarp * packs_each) * kWarp);
}

template <typename T>
using Kernel = void (*)(T*, const std::int64_t*, std::int64_t, int, Softcap, float, float*);

template <typename T>
void launch(Kernel<T> kernel, int threads, int shared_bytes, const SoftcapRows& of, float* nll,
            float scale, Stream stream) {
  if (shared_bytes > 0) {
    // The limit, whatever this call needs: a captured launch of the same kernel may need more.
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         shared_memory_limit());
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
  }
  int resident = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared_bytes);
  kernel<<<blocks_for(of.rows, std::max(1, resident)), threads, shared_bytes, stream>>>(
      static_cast<T*>(of.logits), of.targets, of.rows, of.vocab, Softcap(of.cap), scale, nll);
  check_launch("softcap_cross_entropy");
}

template <bool kGradient>
void run(const SoftcapRows& of, float* nll, float scale, Stream stream) {
  if (of.rows == 0) return;
  dispatch(of.number, [&](auto zero) {
    using T = decltype(zero);
    const auto start = [&](Kernel<T> kernel, int threads, int shared_bytes) {
      launch<T>(kernel, threads, shared_bytes, of, nll, scale, stream);
    };
    constexpr int kSize = Pack<T>::size;
    if (of.vocab % kSize != 0)
      return start(read_twice_kernel<T, Single<T>, kGradient>, threads_for(of.vocab, kPacks), 0);
    const int packs = of.vocab / kSize;
    const auto kept = kGradient ? of.vocab * std::int64_t{sizeof(float)} : 0;
    if (packs > kMaxThreads * kPacks || kept > shared_memory_limit())
      return start(read_twice_kernel<T, Pack<T>, kGradient>, kMaxThreads, 0);
    const bool warp = packs == kWarp * kWarpPacks;
    start(
        warp ? read_once_kernel<T, kGradient, kWarpPacks> : read_once_kernel<T, kGradient, kPacks>,
        threads_for(packs, warp ? kWarpPacks : kPacks), static_cast<int>(kept));
  });
}

}  // namespace

void softcap_nll(const SoftcapRows& of, float* nll, Stream stream) {
  run<false>(of, nll, 0, stream);
}
void softcap_nll_and_gradient(const SoftcapRows& of, float* nll, float scale, Stream stream) {
  run<true>(of, nll, scale, stream);
}

void scale_in_place(void* x, std::int64_t count, const float* factor, Float number, Stream stream) {
  constexpr int kThreads = 256;
  if (count == 0) return;
  dispatch(number, [&](auto zero) {
    using T = decltype(zero);
    const int blocks = blocks_for((count / Pack<T>::size + kThreads - 1) / kThreads, 8);
    scale_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<T*>(x), count, factor);
  });
  check_launch("scale_in_place");
}

}  // namespace tg::cuda
