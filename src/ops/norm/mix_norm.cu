// Weighted sums of up to six tensors, and RMSNorm of the sum: each tensor is read or written once,
// and a row stays in registers in between. Memory-bound.
#include "ops/gemm/fp8.cuh"
#include "ops/norm/mix_norm_kernel.h"
#include "ops/norm/residual_rows.cuh"

namespace tg::cuda {

namespace {

constexpr int kForwardWarps = 8;
// Backward hides latency with 16 warps per SM, with six terms 12, whose registers hold the rows of
// all tensors. Small CTAs divide the registers finely.
template <typename Layout>
constexpr int kBackwardWarps = Layout::block_per_row ? kMaxRowWarps : 4;
template <typename Layout, int kTerms>
constexpr int kBackwardBlocks = (kTerms > 4 ? 12 : 16) / kBackwardWarps<Layout>;

template <typename T>
__device__ float load_number(const void* numbers, bool is_fp32, std::int64_t i) {
  if (is_fp32) return static_cast<const float*>(numbers)[i];
  return static_cast<float>(static_cast<const T*>(numbers)[i]);
}
template <typename T>
__device__ void store_number(void* numbers, bool is_fp32, std::int64_t i, float value, bool adds) {
  if (adds) value += load_number<T>(numbers, is_fp32, i);
  if (is_fp32)
    static_cast<float*>(numbers)[i] = value;
  else
    static_cast<T*>(numbers)[i] = static_cast<T>(value);
}

template <typename T, int kTerms>
__device__ void load_coefficients(const MixNormTerms& terms, std::int64_t row,
                                  float (&coefficients)[kTerms]) {
#pragma unroll
  for (int t = 0; t < kTerms; ++t) {
    const auto& c = terms.coefficients[t];
    coefficients[t] =
        c.value == nullptr ? 1 : load_number<T>(c.value, c.is_fp32, row * c.row_stride);
  }
}

struct ForwardArgs {
  MixNormTerms terms;
  ResidualNormRows rows;
  void* sum;
  bool norms;
  NormedRows normed;
};

// kTerms: at least the number of terms; the others are null.
template <typename Layout, int kTerms, bool copies>
__global__ void __launch_bounds__(kForwardWarps* kWarp)
    mix_forward_kernel(const __grid_constant__ ForwardArgs args) {
  using T = typename Layout::T;
  Fp8Writer<copies> y_copy(args.normed.copy);
  const int width = args.rows.width, column = Layout::column();
  for (auto row = Layout::first_row(); row < args.rows.count; row += Layout::row_stride()) {
    const auto offset = row * width + column;
    typename Layout::Row terms[kTerms], sum;
    float coefficients[kTerms], squares = 0;
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
      terms[t] = Layout::load_row(args.terms.terms[t], offset, width);
    load_coefficients<T>(args.terms, row, coefficients);
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      sum.chunks[k] = {};
      if (column + k * kWarpColumns >= width) continue;
      float mixed[kLaneColumns] = {};
#pragma unroll
      for (int t = 0; t < kTerms; ++t)
#pragma unroll
        for (int i = 0; i < kLaneColumns; ++i)
          mixed[i] = fmaf(coefficients[t], terms[t].chunks[k][i], mixed[i]);
      Layout::store_chunk(args.sum, offset, k, mixed);
      sum.chunks[k] = Pack8<T>::rounded(mixed);
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i)
        squares = fmaf(sum.chunks[k][i], sum.chunks[k][i], squares);
    }
    if (args.norms)
      write_normed<Layout>(sum, squares, row, width, args.rows.channels, args.rows.norm_scale,
                           args.normed.y, args.normed.row_scale, y_copy);
  }
  y_copy.end();
}

struct BackwardArgs {
  MixNormTerms terms;
  ResidualNormRows rows;
  MixNormGradients gradients;
  float* partials;  // [blocks, count] of coefficients for all rows; null: there are none
};

template <typename Layout>
__device__ NormGradient norm_gradient_of_row(const typename Layout::Row& x,
                                             const typename Layout::Row& dy,
                                             const BackwardArgs& args) {
  if (args.gradients.dy == nullptr) return {0, 0};
  float squares = 0, dots = 0;
#pragma unroll
  for (int k = 0; k < Layout::chunks; ++k)
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) {
      squares = fmaf(x.chunks[k][i], x.chunks[k][i], squares);
      dots = fmaf(x.chunks[k][i], dy.chunks[k][i], dots);
    }
  return norm_gradient<Layout>(squares, dots, args.rows.channels, args.rows.norm_scale,
                               args.gradients.dy_is_scaled);
}

template <typename Layout, int kTerms, bool copies>
__global__ void __launch_bounds__(kBackwardWarps<Layout>* kWarp, kBackwardBlocks<Layout, kTerms>)
    mix_backward_kernel(const __grid_constant__ BackwardArgs args) {
  using T = typename Layout::T;
  const auto& gradients = args.gradients;
  Fp8Writer<copies> copy(gradients.copy);
  const int width = args.rows.width, column = Layout::column();
  float scalars[kTerms] = {};
  for (auto row = Layout::first_row(); row < args.rows.count; row += Layout::row_stride()) {
    const auto offset = row * width + column;
    auto x = Layout::load_row(gradients.dy == nullptr ? nullptr : gradients.sum, offset, width);
    auto dy = Layout::load_row(gradients.dy, offset, width);
    auto dsum = Layout::load_row(gradients.dsum, offset, width);
    typename Layout::Row terms[kTerms];
    float coefficients[kTerms], dots[kTerms] = {};
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
      terms[t] = Layout::load_row(args.terms.terms[t], offset, width);
    load_coefficients<T>(args.terms, row, coefficients);
    // Registers have no room for these: they are loaded between stores, which no load can pass.
#pragma unroll
    for (int t = 0; t < kTerms; ++t)
      if (gradients.adds[t]) Layout::prefetch_row(gradients.dterms[t], offset, width);
    const auto norm = norm_gradient_of_row<Layout>(x, dy, args);
    for (auto* kept : {&x, &dy, &dsum}) Layout::keep_packed(*kept);
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k) {
      if (column + k * kWarpColumns >= width) continue;
      float g[kLaneColumns];
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i)
        g[i] = fmaf(norm.scale, fmaf(-norm.x_scale, x.chunks[k][i], dy.chunks[k][i]),
                    dsum.chunks[k][i]);
#pragma unroll
      for (int t = 0; t < kTerms; ++t) {
#pragma unroll
        for (int i = 0; i < kLaneColumns; ++i) dots[t] = fmaf(g[i], terms[t].chunks[k][i], dots[t]);
        if (gradients.dterms[t] == nullptr) continue;
        Pack8<T> before{};
        if (gradients.adds[t])
          before = load_pack<T, kLaneColumns>(static_cast<const T*>(gradients.dterms[t]) + offset +
                                              k * kWarpColumns);
        float dterm[kLaneColumns];
#pragma unroll
        for (int i = 0; i < kLaneColumns; ++i) dterm[i] = fmaf(coefficients[t], g[i], before[i]);
        Layout::store_chunk(gradients.dterms[t], offset, k, dterm);
        if (t == gradients.copied) copy.store(offset + k * kWarpColumns, Pack8<T>::rounded(dterm));
      }
    }
#pragma unroll
    for (int t = 0; t < kTerms; ++t) {
      const auto& c = args.terms.coefficients[t];
      const auto& by_row = gradients.by_row[t];
      if (c.value == nullptr) continue;
      if (c.row_stride == 0) {
        scalars[t] += dots[t];
      } else if (by_row.to != nullptr) {
        const float dot = Layout::row_sum(dots[t]);
        if (column == 0)
          store_number<T>(by_row.to, c.is_fp32, row * by_row.row_stride, dot, by_row.adds);
      }
    }
  }
  copy.end();
  if (args.partials == nullptr) return;
  __shared__ float sums[kTerms];
  write_scalar_partials(scalars, sums);
  __syncthreads();
  const auto count = args.terms.count;
  if (threadIdx.x < count) args.partials[blockIdx.x * count + threadIdx.x] = sums[threadIdx.x];
}

// Calls op(std::integral_constant<int, kTerms>) with the smallest kTerms that holds the terms.
template <typename Op>
void dispatch_terms(int count, Op op) {
  if (count <= 2) return op(std::integral_constant<int, 2>{});
  if (count <= 4) return op(std::integral_constant<int, 4>{});
  op(std::integral_constant<int, kMaxMixTerms>{});
}

}  // namespace

void mix_norm_backward(const MixNormTerms& terms, const ResidualNormRows& rows,
                       const MixNormGradients& gradients, float* scalars,
                       const Workspace& workspace, Stream stream) {
  const BackwardArgs args{terms, rows, gradients, /*partials=*/nullptr};
  const AllColumnSums sums{{{scalars == nullptr ? 0 : terms.count, {scalars}}}};
  dispatch_layout(rows, [&](auto layout) {
    using Layout = decltype(layout);
    dispatch_terms(terms.count, [&](auto terms_of) {
      dispatch_copies<typename Layout::T>(gradients.copy.values != nullptr, [&](auto copies) {
        launch_backward<Layout>(mix_backward_kernel<Layout, terms_of(), copies()>, args,
                                kBackwardWarps<Layout>, sums, workspace, "mix_norm_backward",
                                stream);
      });
    });
  });
}

void mix_norm_forward(const MixNormTerms& terms, const ResidualNormRows& rows, void* sum,
                      const NormedRows* normed, Stream stream) {
  const ForwardArgs args{terms, rows, sum, normed != nullptr,
                         normed == nullptr ? NormedRows{} : *normed};
  dispatch_layout(rows, [&](auto layout) {
    using Layout = decltype(layout);
    dispatch_terms(terms.count, [&](auto terms_of) {
      dispatch_copies<typename Layout::T>(args.normed.copy.values != nullptr, [&](auto copies) {
        launch_forward<Layout>(mix_forward_kernel<Layout, terms_of(), copies()>, args,
                               kForwardWarps, stream);
      });
    });
  });
  check_launch("mix_norm_forward");
}

}  // namespace tg::cuda
