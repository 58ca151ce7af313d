// The MLP's wide products with the activation, or its gradient, in their epilogues: the activation
// is written once and read once, and the product before it never leaves the registers. With D of
// 512 or 768 an epilogue takes half as long as the product of a tile, under which it hides.
#include <algorithm>

#include "ops/cuda/hopper/mlp.h"
#include "ops/cuda/hopper/product.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;

// sums → leaky_relu_squared(sums), rounded, and the sums' signs.
struct Activate {
  static constexpr bool n_major = false, reads_panel = false;
  float slope;

  __device__ float one(float sum, unsigned& signs) const {
    signs = __funnelshift_l(__float_as_uint(sum), signs, 1);
    const float u = sum > 0 ? sum : slope * sum;
    return u * u;
  }
  __device__ void operator()(const float* sums, unsigned (&words)[4], unsigned& signs) const {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float low = one(sums[2 * w], signs), high = one(sums[2 * w + 1], signs);
      const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
      words[w] = reinterpret_cast<const unsigned&>(pair);
    }
  }
};

// sums → sums·2u·u', where u² is the activation. The root of that is |u|; where the product was
// negative, u' is the slope and 2u·u' = -2·|slope|·|u|.
struct Differentiate {
  static constexpr bool n_major = true, reads_panel = true;
  float slope;

  __device__ float one(float sum, float activation, unsigned& signs) const {
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(activation));
    const float factor = static_cast<int>(signs) < 0 ? -2 * fabsf(slope) : 2.0f;
    signs <<= 1;
    return sum * (root * factor);
  }
  __device__ void operator()(const float* sums, unsigned (&words)[4], unsigned& signs) const {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float low = one(sums[2 * w], __uint_as_float(words[w] << 16), signs);
      const float high = one(sums[2 * w + 1], __uint_as_float(words[w] & 0xffff0000u), signs);
      const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
      words[w] = reinterpret_cast<const unsigned&>(pair);
    }
  }
};

// A row-major matrix [rows, columns] of bf16, copied in boxes.
CUtensorMap map_of(const void* matrix, int rows, int columns, int box_rows) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                     &found);
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (encode == nullptr) throw std::runtime_error("no cuTensorMapEncodeTiled in the driver");
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[] = {sizeof(Number) * static_cast<cuuint64_t>(columns)};
  const cuuint32_t box[] = {kSwizzled, static_cast<cuuint32_t>(box_rows)}, every[] = {1, 1};
  const auto status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(matrix), sizes, row_bytes,
             box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled refused a matrix");
  return map;
}

Tiles tiles_of(const MlpShape& shape) {
  const int columns = (shape.hidden + kColumns - 1) / kColumns;
  const int rows = (shape.rows + kCluster * kRows - 1) / (kCluster * kRows);
  return {columns, rows * columns, (shape.dim + kDepth - 1) / kDepth};
}

template <typename Epilogue>
void launch(const MlpShape& shape, const Maps& maps, Epilogue epilogue, void* signs,
            Stream stream) {
  const auto tiles = tiles_of(shape);
  const auto kernel = product_kernel<Epilogue>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  const int blocks = std::min(tiles.count, blocks_for(INT32_MAX, 1) / kCluster) * kCluster;
  kernel<<<blocks, kProductThreads, sizeof(Shared), stream>>>(maps, tiles, epilogue,
                                                              static_cast<uint2*>(signs));
  check_launch("mlp");
}

}  // namespace

bool mlp_kernels_run() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major == 9;
}

std::int64_t mlp_sign_bytes(const MlpShape& shape) {
  return std::int64_t{tiles_of(shape).count} * kCluster * kRows * kColumns / 8;
}

void mlp_up(const MlpShape& shape, const void* x, const void* up, float slope, void* activation,
            void* signs, Stream stream) {
  if (shape.rows == 0) return;
  const Maps maps{map_of(x, shape.rows, shape.dim, kRows),
                  map_of(up, shape.hidden, shape.dim, kColumns / kCluster),
                  {},
                  map_of(activation, shape.rows, shape.hidden, kRows)};
  launch(shape, maps, Activate{slope}, signs, stream);
}

void mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                       const void* activation, const void* signs, float slope, void* gradient,
                       Stream stream) {
  if (shape.rows == 0) return;
  const Maps maps{map_of(dy, shape.rows, shape.dim, kRows),
                  map_of(down, shape.dim, shape.hidden, kDepth / kCluster),
                  map_of(activation, shape.rows, shape.hidden, kRows),
                  map_of(gradient, shape.rows, shape.hidden, kRows)};
  launch(shape, maps, Differentiate{slope}, const_cast<void*>(signs), stream);
}

}  // namespace tg::cuda
