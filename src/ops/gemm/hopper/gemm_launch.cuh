#pragma once
// A product (gemm.cuh) of whole matrices.
#include <algorithm>

#include "ops/gemm/hopper/gemm.cuh"

namespace tg::cuda::hopper {

// Row-major and contiguous, at addresses that are multiples of 16 bytes, rows too.
struct Product {
  int rows, columns, depth;
  const void* a;             // [rows, depth]
  const void* b;             // [columns, depth], or [depth, columns] for an n_major epilogue
  const void* in = nullptr;  // [rows, columns], for an epilogue that reads it
  void* out;                 // [rows, columns]
};

// A matrix of bf16, copied in boxes.
inline CUtensorMap map_of(const void* matrix, int rows, int columns, int box_rows) {
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

template <typename Epilogue>
Tiles tiles_of(int rows, int columns, int depth) {
  const int across = (columns + Epilogue::columns - 1) / Epilogue::columns;
  const int down = (rows + kCluster * kRows - 1) / (kCluster * kRows);
  return {across, down * across, (depth + kDepth - 1) / kDepth};
}

// `name` for errors: std::runtime_error.
template <typename Epilogue>
void launch_product(const Product& product, const Epilogue& epilogue, const char* name,
                    Stream stream) {
  const auto [rows, columns, depth, a, b, in, out] = product;
  if (rows == 0) return;
  const Maps maps{map_of(a, rows, depth, kRows),
                  Epilogue::n_major ? map_of(b, depth, columns, kDepth / kCluster)
                                    : map_of(b, columns, depth, Epilogue::columns / kCluster),
                  Epilogue::reads_panel ? map_of(in, rows, columns, kRows) : CUtensorMap{},
                  map_of(out, rows, columns, kRows)};
  const auto tiles = tiles_of<Epilogue>(rows, columns, depth);
  const auto kernel = product_kernel<Epilogue>;
  constexpr auto bytes = sizeof(Shared<Epilogue::columns>);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const int blocks = std::min(tiles.count, blocks_for(INT32_MAX, 1) / kCluster) * kCluster;
  kernel<<<blocks, kProductThreads, bytes, stream>>>(maps, tiles, epilogue);
  check_launch(name);
}

}  // namespace tg::cuda::hopper
