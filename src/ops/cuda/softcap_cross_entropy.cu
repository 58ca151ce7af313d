// Softcapped cross-entropy: the logits are read once and, for the gradient, written once in place,
// while a row waits in shared memory, in fp32, for its sum. Bound by memory at 16 bits, if only
// just: hence as few special functions as possible, and two or more blocks on a multiprocessor, of
// which one computes while the other writes. Rows too wide for that are shared by two blocks of a
// cluster; rows too wide for those, or not of whole packs of 16 bytes, are read twice.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/cuda/device.cuh"
#include "ops/cuda/row_sum.cuh"
#include "ops/cuda/softcap_cross_entropy.h"

namespace tg::cuda {

namespace {

constexpr int kPacks = 7;          // of a row, a thread
constexpr int kWarpPacks = 4;      // where a warp has the row and every lane as many
constexpr int kPairThreads = 512;  // two blocks of as many fit on a multiprocessor
constexpr float kLog2E = 1.44269504f;

// A pack of one number, for rows that start anywhere.
template <typename T>
struct Single {
  static constexpr int size = 1;
  T value;

  __device__ float operator[](int) const { return static_cast<float>(value); }
};
template <typename P, typename T>
__device__ inline P load(const T* at) {
  if constexpr (P::size == 1) {
    return {*at};
  } else {
    return load_pack(at);
  }
}
template <typename P, typename T>
__device__ inline void store(T* at, const float (&values)[P::size]) {
  if constexpr (P::size == 1) {
    *at = static_cast<T>(values[0]);
  } else {
    store_rounded(at, values);
  }
}

__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float fast_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// fminf would hide a NaN.
__device__ inline float min_or_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// 1/x, of four numbers with one special function.
__device__ inline void invert(float (&x)[1]) {
  x[0] = fast_inverse(x[0]);
}
__device__ inline void invert(float (&x)[4]) {
  const float ab = x[0] * x[1], cd = x[2] * x[3];
  const float inverse = fast_inverse(ab * cd);
  const float inverse_ab = inverse * cd, inverse_cd = inverse * ab;
  const float a = x[0], c = x[2];
  x[0] = inverse_ab * x[1];
  x[1] = inverse_ab * a;
  x[2] = inverse_cd * x[3];
  x[3] = inverse_cd * c;
}

struct Softcap {
  float cap, inner, outer;
  explicit Softcap(float c) : cap(c), inner(2 * kLog2E / c), outer(-2 * kLog2E * c) {}
};

// Of each logit z with its softcapped s: weight = exp(s − cap), slope = (ds/dz)/4.
template <typename T, typename P>
__device__ void weigh(const P& z, const Softcap& by, float (&weight)[P::size],
                      float (&slope)[P::size]) {
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int k = 0; k < P::size; ++k) {
      const float tanh = tanhf(z[k] / by.cap);
      weight[k] = expf(fmaf(by.cap, tanh, -by.cap));
      slope[k] = 0.25f * fmaf(-tanh, tanh, 1.0f);
    }
  } else {
    // With e = exp(2z/cap) and r = 1/(1 + e): tanh = 1 − 2r, s − cap = −2·cap·r and 1 − tanh² =
    // 4·e·r². s errs by some 1e-5 at a cap of 30, a logit's own rounding by thousands of that. Up
    // to 2^31, e leaves the product of four within fp32.
    constexpr int kGroup = P::size < 4 ? 1 : 4;
#pragma unroll
    for (int first = 0; first < P::size; first += kGroup) {
      float e[kGroup], r[kGroup];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        e[k] = fast_exp2(min_or_nan(z[first + k] * by.inner, 31.0f));
        r[k] = 1 + e[k];
      }
      invert(r);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        weight[first + k] = fast_exp2(by.outer * r[k]);
        slope[first + k] = e[k] * r[k] * r[k];
      }
    }
  }
}

// A row's target, with the thread that writes its column. `pack` is a number's place among those of
// the block, which lie on `threads` threads in turn.
template <typename T>
class Target {
 public:
  __device__ Target(const T* row, std::int64_t id, int vocab, int first, int width, int pack_size,
                    int threads)
      : column_(id >= 0 && id < vocab ? static_cast<int>(id) : -1) {
    const auto place = static_cast<unsigned>(column_ - first);  // in the block's columns
    mine_ = column_ < 0 ? first == 0 && threadIdx.x == 0
                        : place < static_cast<unsigned>(width) &&
                              place / pack_size % threads == threadIdx.x;
    logit_.value = static_cast<T>(NAN);
    if (mine_ && column_ >= 0) logit_.value = row[column_];
  }
  __device__ void write_nll(float* nll, float total, const Softcap& softcap) {
    if (!mine_) return;
    weigh<T>(logit_, softcap, weight_, slope_);
    *nll = logf(total / weight_[0]);
  }
  // Over what the same thread has written there as for any other column.
  __device__ void write_gradient(T* row, float total, float scale) const {
    if (mine_ && column_ >= 0)
      row[column_] = static_cast<T>((weight_[0] / total - 1) * (4 * scale) * slope_[0]);
  }

 private:
  int column_;
  bool mine_;
  Single<T> logit_;
  float weight_[1], slope_[1];
};

// How a row lies on threads: a pack of each `threads` is a thread's, of kCount at most.
template <int kCount, int kShares>
struct Packs {
  static constexpr int count = kCount;
  static constexpr int parts = kShares;
  static constexpr bool whole = kCount == kWarpPacks;  // a warp's row, without an end to look for

  static __device__ int threads() { return whole ? kWarp : static_cast<int>(blockDim.x); }
};

// A thread's packs of the next row are on their way while this row is worked on. Only the thread
// that puts a number into shared memory takes it out.
template <typename T, bool kGradient, typename Packs>
__global__ void __launch_bounds__(kMaxThreads)
    read_once_kernel(T* logits, const std::int64_t* __restrict__ targets, std::int64_t rows,
                     int vocab, Softcap softcap, float scale, float* __restrict__ nll) {
  using P = Pack<T>;
  extern __shared__ float4 kept[];  // [P::size / 4][packs]: weight·slope
  constexpr int kParts = Packs::parts;
  const int threads = Packs::threads();
  const int share = (vocab / P::size + kParts - 1) / kParts, part = blockIdx.x % kParts;
  const int packs = min(share, vocab / P::size - part * share), first = part * share * P::size;
  const auto there = [&](int j) {
    return Packs::whole || j * threads + static_cast<int>(threadIdx.x) < packs;
  };
  const int offset = first + threadIdx.x * P::size, step = threads * P::size;
  const std::int64_t row_step = gridDim.x / kParts;
  std::int64_t row = blockIdx.x / kParts;

  P ahead[Packs::count];
#pragma unroll
  for (int j = 0; j < Packs::count; ++j)
    if (there(j)) ahead[j] = load_pack(logits + row * vocab + offset + j * step);
  std::int64_t next_target = targets[row];
  __shared__ typename RowSum<kParts>::Shared sums;
  RowSum<kParts> row_sum(sums);
  for (; row < rows; row += row_step) {
    T* z = logits + row * vocab;
    // Behind the last row stands that row again: cheaper than a question at each pack.
    const std::int64_t next = row + row_step < rows ? row + row_step : row;
    const T* next_z = logits + next * vocab + offset;
    Target<T> target(z, next_target, vocab, first, packs * P::size, P::size, threads);
    next_target = targets[next];
    float sum = 0;
#pragma unroll
    for (int j = 0; j < Packs::count; ++j) {
      if (!there(j)) continue;
      float weight[P::size], slope[P::size];
      weigh<T>(ahead[j], softcap, weight, slope);
      ahead[j] = load_pack(next_z + j * step);
#pragma unroll
      for (int k = 0; k < P::size; ++k) sum += weight[k];
      if constexpr (kGradient) {
        const int i = j * threads + threadIdx.x;
#pragma unroll
        for (int k = 0; k < P::size; k += 4)
          kept[k / 4 * packs + i] =
              make_float4(weight[k] * slope[k], weight[k + 1] * slope[k + 1],
                          weight[k + 2] * slope[k + 2], weight[k + 3] * slope[k + 3]);
      }
    }
    const float total = row_sum(sum);
    target.write_nll(nll + row, total, softcap);
    if constexpr (kGradient) {
      const float factor = 4 * scale / total;
#pragma unroll
      for (int j = 0; j < Packs::count; ++j) {
        if (!there(j)) continue;
        const int i = j * threads + threadIdx.x;
        float dz[P::size];
#pragma unroll
        for (int k = 0; k < P::size; k += 4) {
          const float4 four = kept[k / 4 * packs + i];
          dz[k] = four.x * factor;
          dz[k + 1] = four.y * factor;
          dz[k + 2] = four.z * factor;
          dz[k + 3] = four.w * factor;
        }
        store_rounded(z + offset + j * step, dz);
      }
      target.write_gradient(z, total, scale);
    }
  }
}

template <typename T, typename P, bool kGradient>
__global__ void __launch_bounds__(kMaxThreads)
    read_twice_kernel(T* logits, const std::int64_t* __restrict__ targets, std::int64_t rows,
                      int vocab, Softcap softcap, float scale, float* __restrict__ nll) {
  const int first = threadIdx.x * P::size, step = blockDim.x * P::size;
  __shared__ typename RowSum<1>::Shared sums;
  RowSum<1> row_sum(sums);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* z = logits + row * vocab;
    Target<T> target(z, targets[row], vocab, 0, vocab, P::size, blockDim.x);
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
      target.write_gradient(z, total, scale);
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

int attribute_of(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}
// Shared memory that a block may ask for, besides what it has by declaration.
int shared_memory_limit() {
  static const int limit = attribute_of(cudaDevAttrMaxSharedMemoryPerBlockOptin) -
                           static_cast<int>(sizeof(RowSum<2>::Shared));
  return limit;
}
bool has_clusters() {
  static const bool has = attribute_of(cudaDevAttrClusterLaunch) != 0;
  return has;
}

// Threads for `packs` at so many a thread, in whole warps.
int threads_for(int packs, int packs_each) {
  return std::min(kMaxThreads, (packs + kWarp * packs_each - 1) / (kWarp * packs_each) * kWarp);
}

template <typename T>
using Kernel = void (*)(T*, const std::int64_t*, std::int64_t, int, Softcap, float, float*);

struct Launch {
  int parts, threads, shared_bytes;
};
template <typename T>
void launch(Kernel<T> kernel, const Launch& with, const SoftcapRows& of, float* nll, float scale,
            Stream stream) {
  if (with.shared_bytes > 0) {
    // The limit, whatever this call needs: a captured launch of the same kernel may need more.
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         shared_memory_limit());
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
  }
  int resident = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, with.threads, with.shared_bytes);
  const int blocks = blocks_for(of.rows * with.parts, std::max(1, resident));

  cudaLaunchConfig_t config{};
  config.gridDim = std::max(1, blocks / with.parts) * with.parts;
  config.blockDim = with.threads;
  config.dynamicSmemBytes = with.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(with.parts), 1, 1};
  // Blocks of one row compute and write at the same time: each beside one of another row.
  attributes[1].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
  attributes[1].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicySpread;
  config.attrs = attributes;
  config.numAttrs = with.parts > 1 ? 2 : 0;
  cudaLaunchKernelEx(&config, kernel, static_cast<T*>(of.logits), of.targets, of.rows, of.vocab,
                     Softcap(of.cap), scale, nll);
  check_launch("softcap_cross_entropy");
}

template <bool kGradient>
void run(const SoftcapRows& of, float* nll, float scale, Stream stream) {
  if (of.rows == 0) return;
  dispatch(of.number, [&](auto zero) {
    using T = decltype(zero);
    const auto start = [&](Kernel<T> kernel, const Launch& with) {
      launch<T>(kernel, with, of, nll, scale, stream);
    };
    constexpr int kSize = Pack<T>::size;
    if (of.vocab % kSize != 0)
      return start(read_twice_kernel<T, Single<T>, kGradient>,
                   {1, threads_for(of.vocab, kPacks), 0});
    const int packs = of.vocab / kSize;
    const int parts = packs > kPairThreads * kPacks && has_clusters() ? 2 : 1;
    const int share = (packs + parts - 1) / parts;
    const auto kept = kGradient ? std::int64_t{share} * kSize * sizeof(float) : 0;
    if (share > kMaxThreads * kPacks || kept > shared_memory_limit())
      return start(read_twice_kernel<T, Pack<T>, kGradient>, {1, kMaxThreads, 0});
    const Launch once{parts, threads_for(share, kPacks), static_cast<int>(kept)};
    if (parts == 2) return start(read_once_kernel<T, kGradient, Packs<kPacks, 2>>, once);
    if (packs == kWarp * kWarpPacks)
      return start(read_once_kernel<T, kGradient, Packs<kWarpPacks, 1>>, once);
    start(read_once_kernel<T, kGradient, Packs<kPacks, 1>>, once);
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
