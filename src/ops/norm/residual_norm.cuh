#pragma once
// The sums of residual_norm (ops/norm/residual_norm.h) from a row of its terms in registers.
#include <type_traits>

#include "ops/gemm/fp8.cuh"
#include "ops/norm/residual_rows.cuh"

namespace tg::cuda {

// Kinds of kernels, by the sums that they compute.
enum class Lanes { one, one_weighted, two };
template <Lanes lanes>
constexpr int kLanes = lanes == Lanes::two ? 2 : 1;
template <Lanes lanes>
constexpr int kTerms = lanes == Lanes::one ? 2 : kLaneTerms;

// Weights [lanes, terms], in registers.
template <Lanes lanes>
struct LaneWeights {
  float values[kLanes<lanes>][kLaneTerms];

  __device__ explicit LaneWeights(const float* from) {
#pragma unroll
    for (int lane = 0; lane < kLanes<lanes>; ++lane)
#pragma unroll
      for (int t = 0; t < kLaneTerms; ++t)
        values[lane][t] = from == nullptr ? 1 : from[lane * kLaneTerms + t];
  }
};

// Loads a parameter vector, or broadcasts the scalar *from; `absent` everywhere if null.
__device__ inline Pack8<float> load_parameter(const float* from, bool is_vector, float absent,
                                              int column) {
  if (from != nullptr && is_vector) return load_pack<float, kLaneColumns>(from + column);
  const unsigned word = __float_as_uint(from == nullptr ? absent : *from);
  return {{word, word, word, word, word, word, word, word}};
}

// A thread's parameters for one chunk. Reloaded for every row from L1, since they would not fit in
// registers.
struct Parameters {
  Pack8<float> sum_blend, skip_weight, mix0, mix1;
};
template <Lanes lanes>
__device__ Parameters load_parameters(const ResidualNormTerms& terms, int width, int column) {
  const bool mix_is_vector = lanes == Lanes::two || terms.mix_is_vector;
  const float* mix1 = terms.mix == nullptr ? nullptr : terms.mix + (mix_is_vector ? width : 1);
  return {load_parameter(terms.sum_blend, true, 1, column),
          load_parameter(terms.skip_weight, true, 0, column),
          load_parameter(terms.mix, mix_is_vector, 1, column),
          load_parameter(mix1, mix_is_vector, 0, column)};
}

// One row of each term.
template <typename Layout, Lanes lanes>
struct TermRows {
  using T = typename Layout::T;
  typename Layout::Row terms[kTerms<lanes>], skip, x0;

  __device__ TermRows(const ResidualNormTerms& args, std::int64_t offset, int width) {
#pragma unroll
    for (int t = 0; t < kTerms<lanes>; ++t)
      terms[t] = Layout::load_row(args.terms[t], offset, width);
    if constexpr (lanes != Lanes::one_weighted) {
      skip = Layout::load_row(args.skip, offset, width);
      x0 = Layout::load_row(args.x0, offset, width);
    }
  }
  __device__ void keep_packed() {
#pragma unroll
    for (auto& term : terms) Layout::keep_packed(term);
    if constexpr (lanes != Lanes::one_weighted) Layout::keep_packed(skip), Layout::keep_packed(x0);
  }

  // Values at element i of chunk k, in fp32. Lane 0 of two is rounded as stored before it is mixed.
  // Explicit fmaf gives the same rounding wherever this is inlined, so that backward recomputes
  // forward's rows bit for bit.
  struct Element {
    float sum, total, mixed, lane1;  // lane 0 before the skip, after it, and after the mix
  };
  template <bool blend>
  __device__ Element element(const LaneWeights<lanes>& weights, const Parameters& p, int k,
                             int i) const {
    float sums[2] = {};
    if constexpr (lanes == Lanes::one) {
      sums[0] = terms[0].chunks[k][i] + terms[1].chunks[k][i];
    } else {
#pragma unroll
      for (int lane = 0; lane < kLanes<lanes>; ++lane)
#pragma unroll
        for (int t = 0; t < kLaneTerms; ++t)
          sums[lane] = fmaf(weights.values[lane][t], terms[t].chunks[k][i], sums[lane]);
    }
    if constexpr (lanes == Lanes::one_weighted) return {sums[0], sums[0], sums[0], 0};
    float total =
        fmaf(p.skip_weight[i], skip.chunks[k][i], blend ? p.sum_blend[i] * sums[0] : sums[0]);
    if constexpr (lanes == Lanes::two) total = rounded(total);
    return {sums[0], total, fmaf(p.mix0[i], total, p.mix1[i] * x0.chunks[k][i]), sums[1]};
  }
  static __device__ float rounded(float x) {
    return static_cast<float>(static_cast<T>(x));
  }
};

// Writer of one of several FP8 copies, which may be null; its scale must not be, since Fp8Writer
// reads it.
template <bool copies>
struct OptionalWriter {
  bool writes;
  Fp8Writer<copies> writer;

  __device__ explicit OptionalWriter(const Fp8Copy& copy)
      : writes(copy.values != nullptr), writer(copy) {}
  template <typename PackT>
  __device__ void store(std::int64_t offset, const PackT& pack) {
    if (writes) writer.store(offset, pack);
  }
  __device__ void end() const {
    if (writes) writer.end();
  }
};
template <Lanes lanes, bool copies>
using FirstWriter =
    std::conditional_t<lanes == Lanes::one, Fp8Writer<copies>, OptionalWriter<copies>>;
template <Lanes lanes, bool copies>
using SecondWriter = OptionalWriter<copies && lanes != Lanes::one>;

// Gives a null copy the other copy's scale. Returns whether there is any copy.
inline bool share_scale(Fp8Copy& first, Fp8Copy& second) {
  if (first.values == nullptr) first.scale = second.scale;
  if (second.values == nullptr) second.scale = first.scale;
  return first.values != nullptr || second.values != nullptr;
}

}  // namespace tg::cuda
