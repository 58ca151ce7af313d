// One or two lanes of the residual stream with skip, mix and norms in one pass: each tensor of the
// formula (ops/norm/lanes_norm.h) is read or written once, and a row stays in registers in between.
// Memory-bound.
#include "ops/gemm/fp8.cuh"
#include "ops/norm/lanes_norm_kernel.h"
#include "ops/norm/residual_rows.cuh"

namespace tg::cuda {

namespace {

// Weights [lanes, terms], in registers.
template <int kLanes>
struct LaneWeights {
  float values[kLanes][kLaneTerms];

  __device__ explicit LaneWeights(const float* from) {
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane)
#pragma unroll
      for (int t = 0; t < kLaneTerms; ++t)
        values[lane][t] = from == nullptr ? 1 : from[lane * kLaneTerms + t];
  }
};

// A thread's parameters for one chunk; reloaded for every row.
struct Parameters {
  Pack8<float> blend0, blend1, mix0, mix1;
};
__device__ inline Parameters load_parameters(const LanesNormTerms& terms, int width, int column) {
  const auto second = [&](const float* pair) { return pair == nullptr ? nullptr : pair + width; };
  return {load_parameter(terms.blend, true, 1, column),
          load_parameter(second(terms.blend), true, 0, column),
          load_parameter(terms.mix, true, 1, column),
          load_parameter(second(terms.mix), true, 0, column)};
}

// One row of each input tensor.
template <typename Layout, int kLanes>
struct LaneRows {
  using T = typename Layout::T;
  typename Layout::Row terms[kLaneTerms], skip, x0;

  __device__ LaneRows(const LanesNormTerms& args, std::int64_t offset, int width) {
#pragma unroll
    for (int t = 0; t < kLaneTerms; ++t) terms[t] = Layout::load_row(args.terms[t], offset, width);
    if constexpr (kLanes == 2) {
      skip = Layout::load_row(args.skip, offset, width);
      x0 = Layout::load_row(args.x0, offset, width);
    }
  }
  __device__ void keep_packed() {
#pragma unroll
    for (auto& term : terms) Layout::keep_packed(term);
    if constexpr (kLanes == 2) Layout::keep_packed(skip), Layout::keep_packed(x0);
  }

  // Values at element i of chunk k; lane0, lane1 and mixed are rounded as stored. Explicit fmaf
  // gives the same rounding wherever this is inlined, so that backward recomputes forward's rows
  // bit for bit.
  struct Element {
    float sum, lane0, mixed, lane1;  // sum: lane 0 before the skip
  };
  __device__ Element element(const LaneWeights<kLanes>& weights, const Parameters& p, int k,
                             int i) const {
    const auto rounded = [](float x) { return static_cast<float>(static_cast<T>(x)); };
    float sums[kLanes] = {};
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane)
#pragma unroll
      for (int t = 0; t < kLaneTerms; ++t)
        sums[lane] = fmaf(weights.values[lane][t], terms[t].chunks[k][i], sums[lane]);
    if constexpr (kLanes == 1) {
      const float lane0 = rounded(sums[0]);
      return {sums[0], lane0, lane0, 0};
    } else {
      const float lane0 = rounded(fmaf(p.blend1[i], skip.chunks[k][i], p.blend0[i] * sums[0]));
      return {sums[0], lane0, rounded(fmaf(p.mix0[i], lane0, p.mix1[i] * x0.chunks[k][i])),
              rounded(sums[1])};
    }
  }
};

// Writer of an FP8 copy that may be null; its scale must not be, since Fp8Writer reads it.
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
// Gives a null copy the other copy's scale.
void share_scale(Fp8Copy& first, Fp8Copy& second) {
  if (first.values == nullptr) first.scale = second.scale;
  if (second.values == nullptr) second.scale = first.scale;
}
bool any_copy(const Fp8Copy& first, const Fp8Copy& second) {
  return first.values != nullptr || second.values != nullptr;
}

struct ForwardArgs {
  LanesNormTerms terms;
  ResidualNormRows rows;
  LanesNormOutputs out;
};

constexpr int kWarps = 8;

template <typename Layout, int kLanes, bool copies>
__global__ void __launch_bounds__(kWarps* kWarp)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
  using T = typename Layout::T;
  OptionalWriter<copies> copy0(args.out.y0.copy), copy1(args.out.y1.copy);
  const LaneWeights<kLanes> weights(args.terms.weights);
  const int width = args.rows.width, column = Layout::column();
  for (auto row = Layout::first_row(); row < args.rows.count; row += Layout::row_stride()) {
    const auto offset = row * width + column;
    const LaneRows<Layout, kLanes> in(args.terms, offset, width);
    typename Layout::Row normed[kLanes];
    float squares[kLanes] = {};
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      for (auto& lane : normed) lane.chunks[k] = {};
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters(args.terms, width, column + k * kWarpColumns);
      float lane0[kLaneColumns], normed_columns[kLanes][kLaneColumns];
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const auto element = in.element(weights, p, k, i);
        lane0[i] = element.lane0;
        normed_columns[0][i] = element.mixed;
        if constexpr (kLanes == 2) normed_columns[1][i] = element.lane1;
      }
      Layout::store_chunk(args.out.lane0, offset, k, lane0);
      Layout::store_chunk(args.out.mixed, offset, k, normed_columns[0]);
      if constexpr (kLanes == 2) Layout::store_chunk(args.out.lane1, offset, k, normed_columns[1]);
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) {
        normed[lane].chunks[k] = Pack8<T>::rounded(normed_columns[lane]);
#pragma unroll
        for (const float x : normed_columns[lane]) squares[lane] = fmaf(x, x, squares[lane]);
      }
    }
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto& out = lane == 0 ? args.out.y0 : args.out.y1;
      auto& copy = lane == 0 ? copy0 : copy1;
      write_normed<Layout>(normed[lane], squares[lane], row, width, args.rows.channels,
                           lane == 0 ? args.rows.norm_scale : args.terms.norm_scale_1, out.y,
                           out.row_scale, copy);
    }
  }
  copy0.end();
  copy1.end();
}

struct BackwardArgs {
  LanesNormTerms terms;
  ResidualNormRows rows;
  LanesNormGradients gradients;
  std::int64_t columns;
  // [blocks, columns]: with two lanes mix and blend, whether they exist or not, then weights.
  float* partials;
};

// With two lanes, registers hold a row of eleven tensors and four vectors of parameter gradients.
template <typename Layout, int kLanes, bool copies>
__global__ void __launch_bounds__(kWarps* kWarp)
    backward_kernel(const __grid_constant__ BackwardArgs args) {
  using T = typename Layout::T;
  const auto& terms = args.terms;
  const auto& gradients = args.gradients;
  OptionalWriter<copies> copy0(gradients.copies[0]), copy1(gradients.copies[1]);
  const LaneWeights<kLanes> weights(terms.weights);
  const int width = args.rows.width, column = Layout::column();
  constexpr int kVectors = kLanes == 2 ? 4 : 0;
  enum { kMix0, kMix1, kShare0, kShare1 };
  float vectors[kVectors > 0 ? kVectors : 1][Layout::chunks][kLaneColumns] = {};
  float scalars[kLanes * kLaneTerms] = {};

  for (auto row = Layout::first_row(); row < args.rows.count; row += Layout::row_stride()) {
    const auto offset = row * width + column;
    LaneRows<Layout, kLanes> in(terms, offset, width);
    auto dy0 = Layout::load_row(gradients.dy0, offset, width);
    typename Layout::Row dlane0, dlane1, dy1, dx0_later;
    if constexpr (kLanes == 2) {
      dlane0 = Layout::load_row(gradients.dlane0, offset, width);
      dlane1 = Layout::load_row(gradients.dlane1, offset, width);
      dy1 = Layout::load_row(gradients.dy1, offset, width);
      dx0_later = Layout::load_row(gradients.dx0_later, offset, width);
    }

    // Recomputed in the second loop, to save registers.
    float squares[kLanes] = {}, dots[kLanes] = {};
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters(terms, width, column + k * kWarpColumns);
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const auto element = in.element(weights, p, k, i);
        squares[0] = fmaf(element.mixed, element.mixed, squares[0]);
        dots[0] = fmaf(element.mixed, dy0.chunks[k][i], dots[0]);
        if constexpr (kLanes == 2) {
          squares[1] = fmaf(element.lane1, element.lane1, squares[1]);
          dots[1] = fmaf(element.lane1, dy1.chunks[k][i], dots[1]);
        }
      }
    }
    const auto norm0 = norm_gradient<Layout>(squares[0], dots[0], args.rows.channels,
                                             args.rows.norm_scale, gradients.dy0_is_scaled);
    NormGradient norm1{};
    if constexpr (kLanes == 2)
      norm1 = norm_gradient<Layout>(squares[1], dots[1], args.rows.channels, terms.norm_scale_1,
                                    gradients.dy1_is_scaled);
    in.keep_packed();
    Layout::keep_packed(dy0);
    if constexpr (kLanes == 2)
      for (auto* kept : {&dlane0, &dlane1, &dy1, &dx0_later}) Layout::keep_packed(*kept);
    __syncwarp();  // else the compiler keeps the parameters in registers

#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      if (column + k * kWarpColumns >= width) continue;
      const auto p = load_parameters(terms, width, column + k * kWarpColumns);
      float dterms[kLaneTerms][kLaneColumns], dskip[kLaneColumns], dx0[kLaneColumns];
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const auto element = in.element(weights, p, k, i);
        float d[kLanes];  // gradients of the lanes' sums
        d[0] = norm0.scale * fmaf(-norm0.x_scale, element.mixed, dy0.chunks[k][i]);
        if constexpr (kLanes == 2) {
          const float skip = in.skip.chunks[k][i], x0 = in.x0.chunks[k][i], g = d[0];
          const auto add = [&](int v, float a, float b) {
            vectors[v][k][i] = fmaf(a, b, vectors[v][k][i]);
          };
          const float dlane = fmaf(p.mix0[i], g, dlane0.chunks[k][i]);
          add(kMix0, g, element.lane0);
          add(kMix1, g, x0);
          add(kShare0, dlane, element.sum);
          add(kShare1, dlane, skip);
          dx0[i] = fmaf(p.mix1[i], g, dx0_later.chunks[k][i]);
          dskip[i] = p.blend1[i] * dlane;
          d[0] = p.blend0[i] * dlane;
          d[1] = dlane1.chunks[k][i] +
                 norm1.scale * fmaf(-norm1.x_scale, element.lane1, dy1.chunks[k][i]);
        }
#pragma unroll
        for (int t = 0; t < kLaneTerms; ++t) {
          dterms[t][i] = 0;
#pragma unroll
          for (int lane = 0; lane < kLanes; ++lane) {
            dterms[t][i] = fmaf(weights.values[lane][t], d[lane], dterms[t][i]);
            float& sum = scalars[lane * kLaneTerms + t];
            sum = fmaf(d[lane], in.terms[t].chunks[k][i], sum);
          }
        }
      }
#pragma unroll
      for (int t = 0; t < kLaneTerms; ++t)
        Layout::store_chunk(gradients.dterms[t], offset, k, dterms[t]);
      copy0.store(offset + k * kWarpColumns, Pack8<T>::rounded(dterms[kLaneTerms - 2]));
      copy1.store(offset + k * kWarpColumns, Pack8<T>::rounded(dterms[kLaneTerms - 1]));
      if constexpr (kLanes == 2) {
        Layout::store_chunk(gradients.dskip, offset, k, dskip);
        Layout::store_chunk(gradients.dx0, offset, k, dx0);
      }
    }
  }
  copy0.end();
  copy1.end();

  float* partials = args.partials + blockIdx.x * args.columns;
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    write_vector_partial<Layout, kWarps>(vectors[v], width, partials + std::int64_t{v} * width);
  write_scalar_partials(scalars, partials + std::int64_t{kVectors} * width);
}

// Calls op(Layout, std::integral_constant lanes, copies). kMaxChunks bounds a thread's chunks: with
// more than two the backward kernel would not fit in registers.
template <int kMaxChunks, typename Op>
void dispatch_lanes(const ResidualNormRows& rows, int lanes, bool copies, Op op) {
  dispatch_layout<kMaxChunks>(rows, [&](auto layout) {
    dispatch_copies<typename decltype(layout)::T>(copies, [&](auto with_copies) {
      if (lanes == 1) return op(layout, std::integral_constant<int, 1>{}, with_copies);
      op(layout, std::integral_constant<int, 2>{}, with_copies);
    });
  });
}

}  // namespace

void lanes_norm_backward(const LanesNormTerms& terms, const ResidualNormRows& rows,
                         const LanesNormGradients& gradients, const LanesNormSums& sums,
                         const Workspace& workspace, Stream stream) {
  const std::int64_t vectors = terms.lanes == 2 ? 2 * rows.width : 0;
  const AllColumnSums parts{
      {{vectors, sums.mix}, {vectors, sums.blend}, {terms.lanes * kLaneTerms, sums.weights}}};
  BackwardArgs args{terms, rows, gradients, parts.columns(), /*partials=*/nullptr};
  auto &copy0 = args.gradients.copies[0], &copy1 = args.gradients.copies[1];
  share_scale(copy0, copy1);
  dispatch_lanes<2>(
      rows, terms.lanes, any_copy(copy0, copy1), [&](auto layout, auto lanes, auto copies) {
        launch_backward<decltype(layout)>(backward_kernel<decltype(layout), lanes(), copies()>,
                                          args, kWarps, parts, workspace, "lanes_norm_backward",
                                          stream);
      });
}

void lanes_norm_forward(const LanesNormTerms& terms, const ResidualNormRows& rows,
                        const LanesNormOutputs& outputs, Stream stream) {
  ForwardArgs args{terms, rows, outputs};
  auto &copy0 = args.out.y0.copy, &copy1 = args.out.y1.copy;
  share_scale(copy0, copy1);
  dispatch_lanes<3>(
      rows, terms.lanes, any_copy(copy0, copy1), [&](auto layout, auto lanes, auto copies) {
        using Layout = decltype(layout);
        launch_forward<Layout>(forward_kernel<Layout, lanes(), copies()>, args, kWarps, stream);
      });
  check_launch("lanes_norm_forward");
}

}  // namespace tg::cuda
