// Softcapped cross-entropy: the logits are read once and, for the gradient, written once in place,
// while a row waits in shared memory, in fp32, for its sum. Bound by memory at 16 bits, if only
// just: hence as few special functions as possible, and a loop that reads the next row, computes
// this one and writes the one before. Rows too wide for shared memory, or not of whole packs of 16
// bytes, are read twice.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/cuda/device.cuh"
#include "ops/cuda/softcap_cross_entropy.h"

namespace tg::cuda {

namespace {

constexpr int kMaxThreads = 1024;  // of a block
constexpr int kPacks = 7;          // of a row, a thread
constexpr int kWarpPacks = 4;      // where a warp has the row and every lane as many
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

// Over the threads of a block; each has the result. Rows take turns on two sets of partial sums:
// whoever writes to one has passed the barrier of the other, and with it every reader of the first.
class RowSum {
 public:
  using Shared = float[2][kMaxThreads / kWarp];
  __device__ explicit RowSum(Shared& partial) : partial_(partial) {}

  __device__ float operator()(float value) {
    const int warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    value = warp_sum(value);
    if (warps == 1) return value;
    float* const partial = partial_[turn_++ % 2];
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    return warp_sum(lane < warps ? partial[lane] : 0);
  }

 private:
  Shared& partial_;
  unsigned turn_ = 0;
};

// A number still to be written, by the thread that has it.
template <typename T>
struct Late {
  T* at = nullptr;
  T value;

  __device__ void write() const {
    if (at != nullptr) *at = value;
  }
};

// A row's target, with the thread that writes its column: packs lie on `threads` threads in turn.
template <typename T>
class Target {
 public:
  __device__ Target(const T* row, std::int64_t id, int vocab, int pack_size, int threads)
      : column_(id >= 0 && id < vocab ? static_cast<int>(id) : -1),
        mine_(static_cast<int>(threadIdx.x) == max(column_, 0) / pack_size % threads) {
    logit_.value = mine_ && column_ >= 0 ? row[column_] : static_cast<T>(NAN);
  }
  __device__ void write_nll(float* nll, float total, const Softcap& softcap) {
    if (!mine_) return;
    weigh<T>(logit_, softcap, weight_, slope_);
    *nll = logf(total / weight_[0]);
  }
  // To be written over what the same thread writes there as for any other column.
  __device__ Late<T> gradient(T* row, float total, float scale) const {
    if (!mine_ || column_ < 0) return {};
    return {row + column_, static_cast<T>((weight_[0] / total - 1) * (4 * scale) * slope_[0])};
  }

 private:
  int column_;
  bool mine_;
  Single<T> logit_;
  float weight_[1], slope_[1];
};

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
