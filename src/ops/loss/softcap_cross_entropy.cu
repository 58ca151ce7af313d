// Softcapped cross-entropy: the logits are read once and, for the gradient, written once in place;
// a row stays in shared memory in fp32 until its sum is known. With 16-bit logits it is barely
// memory-bound: hence as few SFU operations as possible, and a loop that is software-pipelined over
// rows: it loads the next row, computes the current one and stores the previous one. Rows that do
// not fit in shared memory, or whose size is not a multiple of 16 bytes, are read twice.
#include <algorithm>

#include "ops/loss/softcap_cross_entropy_kernel.h"
#include "ops/loss/softcap_row.cuh"

namespace tg::cuda {

namespace {

constexpr int kPacks = 7;      // per thread and row, at most
constexpr int kWarpPacks = 4;  // per lane, if a row is exactly 32·4 packs and a warp processes it

// The gradient factor shared by all rows, and a row's factor.
__device__ float load_shared_scale(const GradientScale& scale) {
  return scale.device == nullptr ? scale.host : scale.host * *scale.device;
}
__device__ float row_scale(const GradientScale& scale, float shared_scale, std::int64_t row) {
  return scale.row == nullptr ? shared_scale : shared_scale * scale.row[row];
}

// Each thread holds every blockDim.x-th pack of a row, at most kCount. With kCount = kWarpPacks one
// warp holds the row exactly, without bounds checks. kMasked: rows are wider than the vocabulary.
// Each element in shared memory is written and read by the same thread, so that no barrier is
// needed.
template <typename T, bool kGradient, bool kMasked, int kCount>
__global__ void __launch_bounds__(kMaxThreads)
    read_once_kernel(T* logits, const std::int64_t* __restrict__ targets, std::int64_t rows,
                     int width, int vocab, Softcap softcap, GradientScale gradient_scale,
                     float* __restrict__ nll) {
  using P = Pack<T>;
  extern __shared__ float4 pending[];  // [P::size / 4][packs]: weight·slope
  constexpr bool kExact = kCount == kWarpPacks;
  const int threads = kExact ? kWarp : static_cast<int>(blockDim.x), packs = width / P::size;
  const auto in_bounds = [&](int j) {
    return kExact || j * threads + static_cast<int>(threadIdx.x) < packs;
  };
  const int offset = threadIdx.x * P::size, step = threads * P::size;
  const float shared_scale = kGradient ? load_shared_scale(gradient_scale) : 0;

  T* pending_row = nullptr;  // row whose gradient in `pending` is not yet stored
  float pending_factor = 0;
  DeferredStore<T> target_gradient;
  const auto store_pending = [&](int j) {
    float dz[P::size];
#pragma unroll
    for (int k = 0; k < P::size; k += 4) {
      const float4 four = pending[k / 4 * packs + j * threads + threadIdx.x];
      dz[k] = four.x * pending_factor;
      dz[k + 1] = four.y * pending_factor;
      dz[k + 2] = four.z * pending_factor;
      dz[k + 3] = four.w * pending_factor;
    }
    store_rounded(pending_row + offset + j * step, dz);
  };

  std::int64_t row = blockIdx.x;
  P next_packs[kCount];
#pragma unroll
  for (int j = 0; j < kCount; ++j)
    if (in_bounds(j)) next_packs[j] = load_pack(logits + row * width + offset + j * step);
  std::int64_t next_target = targets[row];
  __shared__ RowSum::Shared sums;
  RowSum row_sum(sums);
  for (; row < rows; row += gridDim.x) {
    T* z = logits + row * width;
    // After the last row, loads it again: cheaper than a branch per pack.
    const std::int64_t next = row + gridDim.x < rows ? row + gridDim.x : row;
    const T* next_z = logits + next * width + offset;
    Target<T> target(z, next_target, vocab, P::size, threads);
    next_target = targets[next];
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (!in_bounds(j)) continue;
      if (kGradient && pending_row != nullptr) store_pending(j);
      float weight[P::size], slope[P::size];
      softcap_weights<T>(next_packs[j], softcap, weight, slope);
      if constexpr (kMasked) mask(weight, slope, vocab - (offset + j * step));
      next_packs[j] = load_pack(next_z + j * step);
#pragma unroll
      for (int k = 0; k < P::size; ++k) sum += weight[k];
      if constexpr (kGradient) {
#pragma unroll
        for (int k = 0; k < P::size; k += 4)
          pending[k / 4 * packs + j * threads + threadIdx.x] =
              make_float4(weight[k] * slope[k], weight[k + 1] * slope[k + 1],
                          weight[k + 2] * slope[k + 2], weight[k + 3] * slope[k + 3]);
      }
    }
    const float total = row_sum(sum);
    target.write_nll(nll + row, total, softcap);
    if constexpr (kGradient) {
      const float scale = row_scale(gradient_scale, shared_scale, row);
      target_gradient.write();
      target_gradient = target.gradient(z, total, scale, softcap);
      pending_row = z;
      pending_factor = softcap.gain * scale / total;
    }
  }
  if (kGradient && pending_row != nullptr) {
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      if (in_bounds(j)) store_pending(j);
    target_gradient.write();
  }
}

template <typename T, typename P, bool kGradient, bool kMasked>
__global__ void __launch_bounds__(kMaxThreads)
    read_twice_kernel(T* logits, const std::int64_t* __restrict__ targets, std::int64_t rows,
                      int width, int vocab, Softcap softcap, GradientScale gradient_scale,
                      float* __restrict__ nll) {
  const float shared_scale = kGradient ? load_shared_scale(gradient_scale) : 0;
  const int first = threadIdx.x * P::size, step = blockDim.x * P::size;
  __shared__ RowSum::Shared sums;
  RowSum row_sum(sums);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* z = logits + row * width;
    Target<T> target(z, targets[row], vocab, P::size, blockDim.x);
    float weight[P::size], slope[P::size], sum = 0;
#pragma unroll 4
    for (int i = first; i < width; i += step) {
      softcap_weights<T>(load<P>(z + i), softcap, weight, slope);
      if constexpr (kMasked) mask(weight, slope, vocab - i);
#pragma unroll
      for (int k = 0; k < P::size; ++k) sum += weight[k];
    }
    const float total = row_sum(sum);
    target.write_nll(nll + row, total, softcap);
    if constexpr (kGradient) {
      const float scale = row_scale(gradient_scale, shared_scale, row);
      const float factor = softcap.gain * scale / total;
#pragma unroll 4
      for (int i = first; i < width; i += step) {
        softcap_weights<T>(load<P>(z + i), softcap, weight, slope);
        if constexpr (kMasked) mask(weight, slope, vocab - i);
        float dz[P::size];
#pragma unroll
        for (int k = 0; k < P::size; ++k) dz[k] = weight[k] * slope[k] * factor;
        store<P>(z + i, dz);
      }
      target.gradient(z, total, scale, softcap).write();
    }
  }
}

template <typename T>
__global__ void scale_kernel(T* x, std::int64_t count, const float* __restrict__ factor) {
  using P = Pack<T>;
  const float scale = *factor;
  if (scale == 1) return;
  const std::int64_t packs = count / P::size;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = thread; i < packs; i += std::int64_t{gridDim.x} * blockDim.x) {
    const P pack = load_pack(x + i * P::size);
    float scaled[P::size];
#pragma unroll
    for (int k = 0; k < P::size; ++k) scaled[k] = pack[k] * scale;
    store_rounded(x + i * P::size, scaled);
  }
  const std::int64_t i = packs * P::size + thread;
  if (i < count) x[i] = static_cast<T>(static_cast<float>(x[i]) * scale);
}

// Returns the dynamic shared memory available to a CTA, in bytes, besides its static
// RowSum::Shared.
int shared_memory_limit() {
  static const int limit = [] {
    int device = 0, bytes = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return bytes - static_cast<int>(sizeof(RowSum::Shared));
  }();
  return limit;
}

// Returns the number of threads for `packs` packs at `packs_each` per thread, in whole warps.
int threads_for(int packs, int packs_each) {
  return std::min(kMaxThreads, (packs + kWarp * packs_each - 1) / (kWarp * packs_each) * kWarp);
}

template <typename T>
using Kernel = void (*)(T*, const std::int64_t*, std::int64_t, int, int, Softcap, GradientScale,
                        float*);

template <typename T>
void launch(Kernel<T> kernel, int threads, int shared_bytes, const SoftcapRows& rows, float* nll,
            GradientScale scale, Stream stream) {
  if (shared_bytes > 0) {
    // Set to the limit even if this call needs less: a captured launch of the same kernel may need
    // more.
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         shared_memory_limit());
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
  }
  int resident = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared_bytes);
  kernel<<<blocks_for(rows.rows, std::max(1, resident)), threads, shared_bytes, stream>>>(
      static_cast<T*>(rows.logits), rows.targets, rows.rows, rows.width, rows.vocab,
      Softcap(rows.softcap), scale, nll);
  check_launch("softcap_cross_entropy");
}

template <bool kGradient, bool kMasked>
void run(const SoftcapRows& rows, float* nll, GradientScale scale, Stream stream) {
  if (rows.rows == 0) return;
  dispatch(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto launch_kernel = [&](Kernel<T> kernel, int threads, int shared_bytes) {
      launch<T>(kernel, threads, shared_bytes, rows, nll, scale, stream);
    };
    constexpr int kSize = Pack<T>::size;
    if (rows.width % kSize != 0)
      return launch_kernel(read_twice_kernel<T, Single<T>, kGradient, kMasked>,
                           threads_for(rows.width, kPacks), 0);
    const int packs = rows.width / kSize;
    const auto shared_bytes = kGradient ? rows.width * std::int64_t{sizeof(float)} : 0;
    if (packs > kMaxThreads * kPacks || shared_bytes > shared_memory_limit())
      return launch_kernel(read_twice_kernel<T, Pack<T>, kGradient, kMasked>, kMaxThreads, 0);
    const bool row_per_warp = packs == kWarp * kWarpPacks;
    launch_kernel(row_per_warp ? read_once_kernel<T, kGradient, kMasked, kWarpPacks>
                               : read_once_kernel<T, kGradient, kMasked, kPacks>,
                  threads_for(packs, row_per_warp ? kWarpPacks : kPacks),
                  static_cast<int>(shared_bytes));
  });
}

template <bool kGradient>
void run(const SoftcapRows& rows, float* nll, GradientScale scale, Stream stream) {
  if (rows.vocab < rows.width)
    run<kGradient, true>(rows, nll, scale, stream);
  else
    run<kGradient, false>(rows, nll, scale, stream);
}

}  // namespace

void softcap_nll(const SoftcapRows& rows, float* nll, Stream stream) {
  run<false>(rows, nll, {}, stream);
}
void softcap_nll_and_gradient(const SoftcapRows& rows, float* nll, const GradientScale& scale,
                              Stream stream) {
  run<true>(rows, nll, scale, stream);
}

void scale_in_place(void* x, std::int64_t count, const float* factor, Dtype dtype, Stream stream) {
  constexpr int kThreads = 256;
  if (count == 0) return;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    const int blocks = blocks_for((count / Pack<T>::size + kThreads - 1) / kThreads, 8);
    scale_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<T*>(x), count, factor);
  });
  check_launch("scale_in_place");
}

}  // namespace tg::cuda
