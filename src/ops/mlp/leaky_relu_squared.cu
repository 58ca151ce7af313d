// LeakyReLU squared, alone and in place after a GEMM. Memory-bound: forward reads and writes once,
// backward reads twice and writes once, in 16-byte accesses, where the ATen reference makes six and
// nine passes. In FP8 a tile is transposed in shared memory on the way.
#include "ops/gemm/fp8.cuh"
#include "ops/gemm/fp8_tile.cuh"
#include "ops/mlp/leaky_relu_squared_kernel.h"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;

__device__ float activation_of(float x, float slope) {
  const float u = x > 0 ? x : slope * x;
  return u * u;
}
// d(u²)/dx = 2u·u' from u² and the sign of x: |u| = √(u²), and u' is the slope if x is negative.
__device__ float activation_slope(float activation, bool negative, float slope) {
  return approximate_sqrt(activation) * (negative ? -2 * fabsf(slope) : 2);
}

struct Forward {
  float slope;
  __device__ float operator()(float x, float) const { return activation_of(x, slope); }
};
struct Backward {
  float slope;
  __device__ float operator()(float x, float dy) const {
    return dy * 2 * x * (x > 0 ? 1.0f : slope * slope);  // d(s·x)²/dx = 2·s²·x
  }
};

// Computes out[i] = op(a[i], b[i]); b may be null. The grid's first threads process the remainder
// after the whole packs.
template <typename T, typename Op>
__global__ void __launch_bounds__(kThreads)
    elementwise_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ out,
                       std::int64_t count, Op op) {
  using P = Pack<T>;
  const std::int64_t packs = count / P::size;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = thread; i < packs; i += threads) {
    const P pack_a = load_pack(a + i * P::size);
    const P pack_b = b == nullptr ? pack_a : load_pack(b + i * P::size);
    float result[P::size];
#pragma unroll
    for (int k = 0; k < P::size; ++k) result[k] = op(pack_a[k], pack_b[k]);
    store_rounded(out + i * P::size, result);
  }
  const std::int64_t i = packs * P::size + thread;
  if (i < count)
    out[i] = static_cast<T>(op(static_cast<float>(a[i]), static_cast<float>((b ? b : a)[i])));
}

template <typename Op>
void elementwise(const void* a, const void* b, void* out, std::int64_t count, Op op, Dtype dtype,
                 Stream stream) {
  if (count == 0) return;
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto packs = count / Pack<T>::size;
    const int blocks = blocks_for((packs + kThreads - 1) / kThreads, 16);
    elementwise_kernel<T><<<blocks, kThreads, 0, stream>>>(
        static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out), count, op);
  });
  check_launch("leaky_relu_squared");
}

constexpr int kSigns = 8;  // elements per byte of signs, and per access in 16 bits

// Returns the sign bits of a pack; the first element's is the lowest.
template <typename T, int size>
__device__ unsigned signs_of(const Pack<T, size>& x) {
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < size; ++i) bits |= __float_as_uint(x[i]) >> 31 << i;
  return bits;
}
__device__ bool is_negative(unsigned bits, int i) {
  return (bits >> i & 1) != 0;
}

// Calls op(index of a pack, its row's scale) for this thread's packs.
template <typename Op>
__device__ void for_each_pack(const MlpShape& shape, const float* row_scale, Op op) {
  const unsigned packs_per_row = shape.hidden / kSigns;
  const auto packs = std::int64_t{shape.rows} * packs_per_row,
             stride = std::int64_t{gridDim.x} * kThreads;
  for (auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += stride)
    op(i, row_scale == nullptr ? 1 : row_scale[i / packs_per_row]);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    activate_kernel(MlpShape shape, const float* row_scale, float slope, T* h,
                    unsigned char* signs) {
  for_each_pack(shape, row_scale, [&](std::int64_t i, float scale) {
    const auto x = load_pack(h + i * kSigns);
    float y[kSigns];
#pragma unroll
    for (int k = 0; k < kSigns; ++k) y[k] = activation_of(scale * x[k], slope);
    store_rounded(h + i * kSigns, y);
    if (signs != nullptr) signs[i] = static_cast<unsigned char>(signs_of(x));
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(MlpShape shape, const T* d_activation, const float* row_scale,
                    const unsigned char* signs, float slope, T* activation) {
  for_each_pack(shape, row_scale, [&](std::int64_t i, float scale) {
    const auto dy = load_pack(d_activation + i * kSigns), y = load_pack(activation + i * kSigns);
    const unsigned negative = signs[i];
    float dx[kSigns];
#pragma unroll
    for (int k = 0; k < kSigns; ++k)
      dx[k] = dy[k] * scale * activation_slope(y[k], is_negative(negative, k), slope);
    store_rounded(activation + i * kSigns, dx);
  });
}

using Chunk = Pack<__nv_bfloat16, kFp8Chunk>;

// Fills the tile with the results of op(index of a chunk's first element, its bytes in the tile,
// out), rounded to bf16 and quantized like to_fp8()'s operands, and stores its rows and transpose.
template <typename Op>
__device__ void store_tile(const TilePlace& place, Fp8Tile& tile, const Fp8Copy& rows,
                           unsigned char* transposed, Op op) {
  const float inverse_scale = 1 / *rows.scale;
  float amax = 0;
  place.for_each_chunk([&](int row, int chunk, std::int64_t at) {
    uint4& bytes = tile.chunk(row, chunk);
    if (at < 0) {
      bytes = make_uint4(0, 0, 0, 0);
      return;
    }
    float out[kFp8Chunk];
    op(at, bytes, out);
    bytes = fp8_chunk(Chunk::rounded(out), inverse_scale, amax);
    __stwb(reinterpret_cast<uint4*>(static_cast<unsigned char*>(rows.values) + at), bytes);
  });
  __syncthreads();
  place.store_transposed(tile, transposed);
  raise_amax(rows.amax, amax);
}

__global__ void __launch_bounds__(kTileThreads)
    activate_in_fp8_kernel(TiledMatrix matrix, const __nv_bfloat16* h, float slope, Fp8Copy rows,
                           unsigned char* transposed, unsigned short* signs) {
  __shared__ Fp8Tile tile;
  store_tile(TilePlace(matrix), tile, rows, transposed,
             [&](std::int64_t at, const uint4&, float(&y)[kFp8Chunk]) {
               const Chunk x = load_pack<__nv_bfloat16, kFp8Chunk>(h + at);
#pragma unroll
               for (int i = 0; i < kFp8Chunk; ++i) y[i] = activation_of(x[i], slope);
               signs[at / kFp8Chunk] = static_cast<unsigned short>(signs_of(x));
             });
}

__global__ void __launch_bounds__(kTileThreads)
    backward_in_fp8_kernel(TiledMatrix matrix, const __nv_bfloat16* d_activation,
                           const float* activation_scale, const unsigned short* signs, float slope,
                           Fp8Copy rows, unsigned char* transposed) {
  __shared__ Fp8Tile tile;
  const TilePlace place(matrix);
  place.load_transposed(tile, transposed);
  __syncthreads();
  const float scale = approximate_sqrt(*activation_scale);
  store_tile(place, tile, rows, transposed,
             [&](std::int64_t at, const uint4& activation, float(&dx)[kFp8Chunk]) {
               const Chunk dy = load_pack<__nv_bfloat16, kFp8Chunk>(d_activation + at);
               const unsigned negative = signs[at / kFp8Chunk];
               const unsigned words[] = {activation.x, activation.y, activation.z, activation.w};
#pragma unroll
               for (int i = 0; i < kFp8Chunk; i += 2) {
                 const float2 y = from_e4m3_pair(words[i / 4] >> 8 * (i % 4) & 0xffffu);
                 dx[i] = dy[i] * scale * activation_slope(y.x, is_negative(negative, i), slope);
                 dx[i + 1] =
                     dy[i + 1] * scale * activation_slope(y.y, is_negative(negative, i + 1), slope);
               }
             });
}

int blocks_of(const MlpShape& shape) {
  return blocks_for((activation_sign_bytes(shape) + kThreads - 1) / kThreads, 16);
}

}  // namespace

void leaky_relu_squared_forward(const void* x, void* y, std::int64_t count, float slope,
                                Dtype dtype, Stream stream) {
  elementwise(x, nullptr, y, count, Forward{slope}, dtype, stream);
}

void leaky_relu_squared_backward(const void* x, const void* dy, void* dx, std::int64_t count,
                                 float slope, Dtype dtype, Stream stream) {
  elementwise(x, dy, dx, count, Backward{slope}, dtype, stream);
}

void activate(const MlpShape& shape, const float* row_scale, float slope, void* h, void* signs,
              Dtype dtype, Stream stream) {
  if (activation_sign_bytes(shape) == 0) return;
  dispatch_half(dtype, [&](auto zero) {
    activate_kernel<<<blocks_of(shape), kThreads, 0, stream>>>(shape, row_scale, slope,
                                                               static_cast<decltype(zero)*>(h),
                                                               static_cast<unsigned char*>(signs));
  });
  check_launch("activate");
}

void activation_backward(const MlpShape& shape, const void* d_activation, const float* row_scale,
                         const void* signs, float slope, void* activation, Dtype dtype,
                         Stream stream) {
  if (activation_sign_bytes(shape) == 0) return;
  dispatch_half(dtype, [&](auto zero) {
    using T = decltype(zero);
    backward_kernel<<<blocks_of(shape), kThreads, 0, stream>>>(
        shape, static_cast<const T*>(d_activation), row_scale,
        static_cast<const unsigned char*>(signs), slope, static_cast<T*>(activation));
  });
  check_launch("activation_backward");
}

void activate_in_fp8(const MlpShape& shape, const void* h, float slope, const Fp8Copy& rows,
                     void* transposed, void* signs, Stream stream) {
  if (activation_sign_bytes(shape) == 0) return;
  const TiledMatrix matrix{shape.rows, shape.hidden};
  activate_in_fp8_kernel<<<matrix.grid(), kTileThreads, 0, stream>>>(
      matrix, static_cast<const __nv_bfloat16*>(h), slope, rows,
      static_cast<unsigned char*>(transposed), static_cast<unsigned short*>(signs));
  check_launch("activate_in_fp8");
}

void activation_backward_in_fp8(const MlpShape& shape, const void* d_activation,
                                const float* activation_scale, const void* signs, float slope,
                                const Fp8Copy& rows, void* transposed, Stream stream) {
  if (activation_sign_bytes(shape) == 0) return;
  const TiledMatrix matrix{shape.rows, shape.hidden};
  backward_in_fp8_kernel<<<matrix.grid(), kTileThreads, 0, stream>>>(
      matrix, static_cast<const __nv_bfloat16*>(d_activation), activation_scale,
      static_cast<const unsigned short*>(signs), slope, rows,
      static_cast<unsigned char*>(transposed));
  check_launch("activation_backward_in_fp8");
}

}  // namespace tg::cuda
