#pragma once
// Device code for one row of softcapped logits and its target.
#include <cmath>
#include <type_traits>

#include "ops/kernels.cuh"
#include "ops/loss/softcap.h"

namespace tg::cuda {

constexpr int kMaxThreads = 1024;  // per CTA
constexpr float kLog2E = 1.44269504f;

// A pack of one element, for rows of any alignment.
template <typename T>
struct Single {
  static constexpr int size = 1;
  T value;

  __device__ float operator[](int) const { return static_cast<float>(value); }
};
template <typename P, typename T>
__device__ inline P load(const T* from) {
  if constexpr (P::size == 1) {
    return {*from};
  } else {
    return load_pack(from);
  }
}
template <typename P, typename T>
__device__ inline void store(T* to, const float (&values)[P::size]) {
  if constexpr (P::size == 1) {
    *to = static_cast<T>(values[0]);
  } else {
    store_rounded(to, values);
  }
}

__device__ inline float fast_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// fminf does not propagate NaN.
__device__ inline float min_or_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// Computes x = 1/x in place; four elements need only one SFU instruction.
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

// tg::Softcap in fp32.
struct Softcap {
  float cap, shift, temperature;
  float gain;                // 4·cap/temperature: ds/dz = gain·slope
  float inner, inner_shift;  // 2(z + shift)/temperature in units of ln 2: inner·z + inner_shift
  float outer;
  explicit Softcap(const tg::Softcap& s)
      : cap(static_cast<float>(s.cap)),
        shift(static_cast<float>(s.shift)),
        temperature(static_cast<float>(s.temperature)),
        gain(4 * static_cast<float>(s.gain())),
        inner(2 * kLog2E / temperature),
        inner_shift(shift * inner),
        outer(-2 * kLog2E * cap) {}

  // Returns log2 of exp(s − cap); r = 1/(1 + exp(2(z + shift)/temperature)), see softcap_weights().
  __device__ float exponent(float r) const { return outer * r; }
};
// Softcap of logits that are first multiplied by `factor`; weights are divided by `scale`.
struct ScaledSoftcap : Softcap {
  float offset;
  __device__ ScaledSoftcap(const Softcap& softcap, float factor, float scale)
      : Softcap(softcap), offset(-log2f(scale)) {
    inner *= factor;
  }
  __device__ float exponent(float r) const { return fmaf(outer, r, offset); }
};

// For each logit z with softcapped s: weight = exp(s − cap), slope = (1 − tanh²)/4.
template <typename T, typename P, typename AnySoftcap>
__device__ void softcap_weights(const P& z, const AnySoftcap& softcap, float (&weight)[P::size],
                                float (&slope)[P::size]) {
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int k = 0; k < P::size; ++k) {
      const float tanh = tanhf((z[k] + softcap.shift) / softcap.temperature);
      weight[k] = expf(fmaf(softcap.cap, tanh, -softcap.cap));
      slope[k] = 0.25f * fmaf(-tanh, tanh, 1.0f);
    }
  } else {
    // With e = exp(2(z + shift)/temperature) and r = 1/(1 + e): tanh = 1 − 2r, s − cap = −2·cap·r
    // and 1 − tanh² = 4·e·r². The error of s is about 1e-5 at a cap of 30, thousands of times less
    // than the rounding of a 16-bit logit. e is at most 2^31, so that multiplying four denominators
    // in invert() does not overflow fp32.
    constexpr int kGroup = P::size < 4 ? 1 : 4;
#pragma unroll
    for (int first = 0; first < P::size; first += kGroup) {
      float e[kGroup], r[kGroup];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        e[k] = fast_exp2(min_or_nan(fmaf(z[first + k], softcap.inner, softcap.inner_shift), 31.0f));
        r[k] = 1 + e[k];
      }
      invert(r);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        weight[first + k] = fast_exp2(softcap.exponent(r[k]));
        slope[first + k] = e[k] * r[k] * r[k];
      }
    }
  }
}

// Computes weight and slope of one 16-bit logit, which may be infinite. Uses fewer instructions but
// more SFU operations than softcap_weights(), which is faster in GEMM epilogues.
template <typename AnySoftcap>
__device__ void softcap_weight(float z, const AnySoftcap& softcap, float& weight, float& slope) {
  const float r = fast_inverse(1 + fast_exp2(fmaf(z, softcap.inner, softcap.inner_shift)));
  weight = fast_exp2(softcap.exponent(r));
  slope = fmaf(-r, r, r);
}

// Zeros the weights and slopes of a pack's columns from `valid` on, beyond the vocabulary. Their
// logits must be finite, since invert() combines four elements.
template <int kSize>
__device__ inline void mask(float (&weight)[kSize], float (&slope)[kSize], int valid) {
  if (valid >= kSize) return;
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    if (k >= valid) weight[k] = slope[k] = 0;
  }
}

// Sums over the threads of a CTA; every thread gets the sum. Calls alternate between two buffers of
// partial sums, so that one barrier per call suffices: a warp that writes to a buffer has passed
// the other buffer's barrier, which all readers of this buffer have reached.
class RowSum {
 public:
  using Shared = float[2][kMaxThreads / kWarp];
  __device__ explicit RowSum(Shared& partial) : partial_(partial) {}

  __device__ float operator()(float value) {
    const int warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    value = warp_sum(value);
    if (warps == 1) return value;
    float* const partial = partial_[calls_++ % 2];
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    return warp_sum(lane < warps ? partial[lane] : 0);
  }

 private:
  Shared& partial_;
  unsigned calls_ = 0;
};

// A store that the thread executes later; `to` null: no store.
template <typename T>
struct DeferredStore {
  T* to = nullptr;
  T value;

  __device__ void write() const {
    if (to != nullptr) *to = value;
  }
};

// A row's target, handled by the thread that owns its column: packs are assigned to `threads`
// threads round-robin. An invalid target gives a NaN loss.
template <typename T>
class Target {
 public:
  __device__ Target(const T* row, std::int64_t id, int vocab, int pack_size, int threads)
      : column_(id >= 0 && id < vocab ? static_cast<int>(id) : -1),
        is_owner_(static_cast<int>(threadIdx.x) == max(column_, 0) / pack_size % threads) {
    logit_.value = is_owner_ && column_ >= 0 ? row[column_] : static_cast<T>(NAN);
  }
  __device__ void write_nll(float* nll, float total, const Softcap& softcap) {
    if (!is_owner_) return;
    softcap_weights<T>(logit_, softcap, weight_, slope_);
    *nll = logf(total / weight_[0]);
  }
  // Returns the store of the target's gradient, which must follow the thread's regular store to
  // that column.
  __device__ DeferredStore<T> gradient(T* row, float total, float scale,
                                       const Softcap& softcap) const {
    if (!is_owner_ || column_ < 0) return {};
    return {row + column_,
            static_cast<T>((weight_[0] / total - 1) * (softcap.gain * scale) * slope_[0])};
  }

 private:
  int column_;
  bool is_owner_;
  Single<T> logit_;
  float weight_[1], slope_[1];
};

}  // namespace tg::cuda
