#pragma once
// Host-side launch of the GEMM of gemm.cuh.
#include <algorithm>
#include <array>

#include "ops/gemm/fp8_kernel.h"
#include "ops/gemm/hopper/gemm.cuh"

namespace tg::cuda::hopper {

// D = epilogue(A·Bᵀ, C), with the epilogue's Operand and Element types. Matrices are row-major and
// contiguous; addresses and row sizes are multiples of 16 bytes, as TMA requires. FP8 C and D are
// [n, fp8_interleaved(m)], with n a multiple of 16; rows of A·Bᵀ beyond m are zero.
struct GemmProblem {
  int m, n, k;
  const void* a;            // [m, k]
  const void* b;            // [n, k], or [k, n] if the epilogue's n_major_b
  const void* c = nullptr;  // [m, n]; null unless the epilogue's reads_c
  void* d;                  // [m, n], or [d_parts, m, n / d_parts]
  void* d_rows = nullptr;   // FP8: the row-major D [m, n]
  // More than 1 only in 16 bits, without C, where the parts are multiples of a subtile's columns
  // and m is one of a cluster's rows.
  int d_parts = 1;
};

template <typename T>
constexpr CUtensorMapDataType kTensorMapType = sizeof(T) == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                               : std::is_same_v<T, __half>
                                                   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                   : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

// Launches a cooperative kernel: all CTAs are co-resident and may wait for each other.
template <typename... Parameters>
void launch_cooperative(void (*kernel)(Parameters...), int blocks, int threads,
                        std::size_t shared_bytes, Stream stream, Parameters... parameters) {
  void* pointers[] = {&parameters...};
  cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), blocks, threads, pointers,
                              shared_bytes, stream);
}

// Encodes a tensor map of T. The contiguous dimension comes first and has no stride.
template <typename T, int rank>
CUtensorMap encode_tensor_map(const void* tensor, const std::array<cuuint64_t, rank>& sizes,
                              const std::array<cuuint64_t, rank - 1>& byte_strides,
                              const std::array<cuuint32_t, rank>& box,
                              CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                     &found);
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (encode == nullptr) throw std::runtime_error("no cuTensorMapEncodeTiled in the driver");
  CUtensorMap map;
  std::array<cuuint32_t, rank> element_strides;
  element_strides.fill(1);
  const auto status =
      encode(&map, kTensorMapType<T>, rank, const_cast<void*>(tensor), sizes.data(),
             byte_strides.data(), box.data(), element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled refused a tensor");
  return map;
}
// Encodes a matrix's tensor map with boxes of box_rows x 128 bytes.
template <typename T>
CUtensorMap make_tensor_map(const void* matrix, int rows, int columns, int box_rows) {
  return encode_tensor_map<T, 2>(matrix,
                                 {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)},
                                 {sizeof(T) * static_cast<cuuint64_t>(columns)},
                                 {kSwizzleBytes / sizeof(T), static_cast<cuuint32_t>(box_rows)});
}

// Encodes the tensor map of C or D, with one subtile per box.
template <typename Element>
CUtensorMap make_output_map(const void* matrix, int m, int n) {
  if constexpr (is_transposed<Element>)
    return make_tensor_map<Element>(matrix, n, static_cast<int>(fp8_interleaved(m)), kSubtileN);
  else
    return make_tensor_map<Element>(matrix, m, n, kBlockM);
}

// FP8: encodes the row-major D's, with one subtile per box.
template <typename Element>
CUtensorMap make_rows_map(const void* rows, int m, int n) {
  const auto columns = static_cast<cuuint64_t>(n);
  return encode_tensor_map<Element, 2>(rows, {columns, static_cast<cuuint64_t>(m)}, {columns},
                                       {kSubtileN, kBlockM}, CU_TENSOR_MAP_SWIZZLE_64B);
}
// Encodes the map of a K-major B [n, k] in FP8, in boxes of box_rows rows, in which row 8j + 2q + b
// of 16 is row 4q + 2j + b of B (reordered_column).
template <typename Operand>
CUtensorMap make_reordered_map(const void* b, int n, int k, int box_rows) {
  const auto row = static_cast<cuuint64_t>(k);
  const auto groups = static_cast<cuuint64_t>(n / kReorderedColumns);
  return encode_tensor_map<Operand, 5>(
      b, {row, 2, 4, 2, groups}, {row, 4 * row, 2 * row, kReorderedColumns * row},
      {kSwizzleBytes, 2, 4, 2, static_cast<cuuint32_t>(box_rows / kReorderedColumns)});
}

template <typename Epilogue>
TileGrid make_tile_grid(int m, int n, int k) {
  const int n_tiles = (n + Epilogue::block_n - 1) / Epilogue::block_n;
  const int m_tiles = (m + kClusterSize * kBlockM - 1) / (kClusterSize * kBlockM);
  constexpr int block_k = kBlockK<typename Epilogue::Operand>;
  return {n_tiles, m_tiles, (k + block_k - 1) / block_k};
}

// `name`: the kernel's name in error messages. Throws std::runtime_error if CUDA reports an error.
template <typename Epilogue>
void launch_gemm(const GemmProblem& problem, const Epilogue& epilogue, const char* name,
                 Stream stream) {
  using Operand = typename Epilogue::Operand;
  using Element = typename Epilogue::Element;
  constexpr int block_k = kBlockK<Operand>, block_n = Epilogue::block_n;
  constexpr bool in_fp8 = is_transposed<Element>;
  const auto [m, n, k, a, b, c, d, d_rows, d_parts] = problem;
  if (m == 0) return;
  const auto b_map = [&] {
    if constexpr (in_fp8)
      return make_reordered_map<Operand>(b, n, k, block_n / kClusterSize);
    else if constexpr (Epilogue::n_major_b)
      return make_tensor_map<Operand>(b, k, n, block_k / kClusterSize);
    else
      return make_tensor_map<Operand>(b, n, k, block_n / kClusterSize);
  };
  const TensorMaps maps{make_tensor_map<Operand>(a, m, k, kBlockM), b_map(),
                        Epilogue::reads_c ? make_output_map<Element>(c, m, n) : CUtensorMap{},
                        make_output_map<Element>(d, m * d_parts, n / d_parts),
                        in_fp8 ? make_rows_map<Element>(d_rows, m, n) : CUtensorMap{}};
  auto grid = make_tile_grid<Epilogue>(m, n, k);
  if (d_parts > 1) grid.part_rows = m, grid.part_columns = n / d_parts;
  const auto kernel = wgmma_kernel<Epilogue>;
  constexpr auto smem_bytes = sizeof(SharedStorage<Operand, Element, block_n>);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  const int ctas = std::min(grid.count(), blocks_for(INT32_MAX, 1) / kClusterSize) * kClusterSize;
  kernel<<<ctas, kGemmThreads, smem_bytes, stream>>>(maps, grid, epilogue);
  check_launch(name);
}

}  // namespace tg::cuda::hopper
