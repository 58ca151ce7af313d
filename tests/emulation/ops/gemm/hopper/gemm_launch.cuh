#pragma once
// Replaces the Hopper GEMM (src/ops/gemm/hopper): computes each tile in fp32 and runs the real
// epilogue code on it, as the threads of one consumer warpgroup. Does not emulate the GEMM's TMA,
// wgmma and pipeline; other kernels use ptx.cuh's.
#include <array>
#include <vector>

#include "ops/gemm/fp8_kernel.h"
#include "ops/gemm/hopper/ptx.cuh"
#include "ops/gemm/hopper/tile.cuh"

namespace tg::cuda::hopper {

template <typename T, int rank>
CUtensorMap encode_tensor_map(const void* tensor, const std::array<cuuint64_t, rank>& sizes,
                              const std::array<cuuint64_t, rank - 1>& byte_strides,
                              const std::array<cuuint32_t, rank>& box) {
  static_assert(rank == TensorMap::rank && sizeof(T) == 2);
  TensorMap map{const_cast<unsigned char*>(static_cast<const unsigned char*>(tensor))};
  for (int d = 0; d < rank; ++d) {
    map.sizes[d] = static_cast<std::int64_t>(sizes[d]);
    map.byte_strides[d] = d == 0 ? 2 : static_cast<std::int64_t>(byte_strides[d - 1]);
    map.box[d] = static_cast<int>(box[d]);
  }
  CUtensorMap out;
  std::memcpy(&out, &map, sizeof map);
  return out;
}

template <typename... Parameters>
void launch_cooperative(void (*kernel)(Parameters...), int blocks, int threads, std::size_t, Stream,
                        Parameters... parameters) {
  emulation::launch_together(kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                             parameters...);
}

struct GemmProblem {
  int m, n, k;
  const void* a;            // [m, k]
  const void* b;            // [n, k], or [k, n] if the epilogue's n_major_b
  const void* c = nullptr;  // [m, n], or in FP8 [n, fp8_interleaved(m)]
  void* d;                  // as c, or [d_parts, m, n / d_parts]
  void* d_rows = nullptr;   // FP8: [m, n]
  int d_parts = 1;
};
struct TileGrid {
  int n_tiles, m_tiles;
  int count() const { return n_tiles * m_tiles; }
};
template <typename Epilogue>
TileGrid make_tile_grid(int m, int n, int) {
  constexpr int cluster_rows = kClusterSize * kBlockM;
  return {(n + Epilogue::block_n - 1) / Epilogue::block_n, (m + cluster_rows - 1) / cluster_rows};
}

template <int block_n>
struct Accumulators {
  WgmmaAccumulators<block_n> mma[kWgmmaTiles];
};
inline int accumulator_row(int mma, int half) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kWarpgroupWarps;
  return mma * kWgmmaM + warp * 16 + half * 8 + lane / 4;
}
inline int accumulator_column() {
  return threadIdx.x % 4 * 2;
}

template <typename Element>
int column_of(int accumulator_column) {
  return is_transposed<Element> ? reordered_column(accumulator_column) : accumulator_column;
}

// The subtile without its swizzle.
template <typename Element, bool transposed = is_transposed<Element>>
struct SubtileView {
  Element* smem;
  int mma;

  void load(int chunk, unsigned (&words)[4]) const {
    for (int w = 0; w < 4; ++w) std::memcpy(&words[w], address(chunk, w), sizeof words[w]);
  }
  void store(int chunk, const unsigned (&words)[4]) const {
    for (int w = 0; w < 4; ++w) std::memcpy(address(chunk, w), &words[w], sizeof words[w]);
  }
  void store_rounded(int chunk, const float* accumulators) const {
    unsigned words[4];
    for (int w = 0; w < 4; ++w)
      words[w] = rounded_pair<Element>(accumulators[2 * w], accumulators[2 * w + 1]);
    store(chunk, words);
  }

 private:
  Element* address(int chunk, int word) const {
    const int column = (chunk + word / 2) * 8 + accumulator_column();
    return smem + accumulator_row(mma, word % 2) * kSubtileN + column;
  }
};

template <typename Element>
struct SubtileView<Element, true> {
  Element* smem;
  int mma;

  void load(int chunk, unsigned (&words)[4]) const {
    for (int w = 0; w < 4; ++w)
      for (int byte = 0; byte < 4; ++byte)
        reinterpret_cast<Element*>(&words[w])[byte] = element(chunk + w, byte);
  }
  void store(int chunk, const unsigned (&words)[4]) const {
    for (int w = 0; w < 4; ++w)
      for (int byte = 0; byte < 4; ++byte)
        element(chunk + w, byte) = reinterpret_cast<const Element*>(&words[w])[byte];
  }
  // The row-major subtile follows.
  void store_rows(int chunk, const unsigned (&words)[4]) const {
    for (int w = 0; w < 4; ++w) {
      const int row = accumulator_row(mma, w % 2);
      const int column = (chunk / 2 + w / 2) * 16 + threadIdx.x % 4 * 4;
      std::memcpy(smem + (kBlockM + row) * kSubtileN + column, &words[w], 4);
    }
  }

 private:
  // Both rows of a column, then both rows of the next column.
  Element& element(int chunk, int byte) const {
    const int column = column_of<Element>(chunk * 8 + accumulator_column() + byte / 2);
    return smem[accumulator_row(mma, byte % 2) * kSubtileN + column];
  }
};

// Converts a matrix [rows, columns] of Operand, or its transpose, to fp32, with zeros up to
// `padded` columns.
template <typename Operand>
std::vector<float> as_floats(const void* matrix, int rows, int columns, bool transposed,
                             int padded) {
  const auto* const values = static_cast<const Operand*>(matrix);
  std::vector<float> out(std::size_t(rows) * padded);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      out[std::size_t(r) * padded + c] = static_cast<float>(
          transposed ? values[std::size_t(c) * rows + r] : values[std::size_t(r) * columns + c]);
  return out;
}

// A tile, or part of one, at a position in a matrix [m, n]; elements outside are zero and are not
// stored.
template <typename Element, int columns>
struct Part {
  Element values[kBlockM * columns];

  template <typename Visit>
  void for_each(const GemmProblem& problem, int row, int column, Visit visit) {
    const auto rows = is_transposed<Element> ? fp8_interleaved(problem.m) : problem.m;
    for (int r = 0; r < kBlockM; ++r)
      for (int c = 0; c < columns; ++c)
        visit(values[r * columns + c], row + r, column + c,
              row + r < rows && column + c < problem.n);
  }
};

// Returns the offset of an element of C or D; `parts`: GemmProblem::d_parts.
template <typename Element>
std::size_t offset_of(const GemmProblem& problem, int row, int column, int parts = 1) {
  if (!is_transposed<Element>) {
    const int width = problem.n / parts;
    return (std::size_t(column) / width * problem.m + row) * width + column % width;
  }
  const int in_group = row % kInterleavedRows;
  const int at = row - in_group + in_group % 8 * 2 + in_group / 8;
  return std::size_t(column) * fp8_interleaved(problem.m) + at;
}

template <typename Epilogue>
void run_epilogue(const GemmProblem& problem, const Epilogue& epilogue, const TileInfo& at,
                  const Part<float, Epilogue::block_n>& products) {
  using Element = typename Epilogue::Element;
  constexpr int block_n = Epilogue::block_n;
  static Part<Element, kSubtileN> smem[2];  // FP8: transposed, and rows
  const bool first = threadIdx.x % kWarpgroupThreads == 0;
  Accumulators<block_n> accumulators;
  for (int mma = 0; mma < kWgmmaTiles; ++mma)
    for (int i = 0; i < block_n / 2; ++i) {
      const int row = accumulator_row(mma, i / 2 % 2);
      const int column = column_of<Element>(i / 4 * 8 + accumulator_column() + i % 2);
      accumulators.mma[mma].values[i] = products.values[row * block_n + column];
    }
  typename Epilogue::Tile tile(epilogue, at);
  if constexpr (requires { tile.transform(accumulators); }) tile.transform(accumulators);
  for (int subtile = 0; subtile < block_n / kSubtileN; ++subtile) {
    const auto for_each = [&](auto visit, int part = 0) {
      __syncthreads();
      if (first) smem[part].for_each(problem, at.row, at.column + subtile * kSubtileN, visit);
      __syncthreads();
    };
    if constexpr (Epilogue::reads_c) {
      for_each([&](Element& value, int r, int c, bool inside) {
        const auto* const from = static_cast<const Element*>(problem.c);
        value = inside ? from[offset_of<Element>(problem, r, c)] : Element(0.0f);
      });
    }
    for (int mma = 0; mma < kWgmmaTiles; ++mma)
      tile.store_subtile(subtile, mma,
                         accumulators.mma[mma].values + subtile * kSubtileAccumulators,
                         SubtileView<Element>{smem[0].values, mma});
    for_each([&](const Element& value, int r, int c, bool inside) {
      if (inside)
        static_cast<Element*>(problem.d)[offset_of<Element>(problem, r, c, problem.d_parts)] =
            value;
    });
    if constexpr (is_transposed<Element>)
      for_each(
          [&](const Element& value, int r, int c, bool) {
            if (r < problem.m && c < problem.n)
              static_cast<Element*>(problem.d_rows)[std::size_t(r) * problem.n + c] = value;
          },
          1);
    tile.end_subtile(subtile);
  }
}

template <typename Epilogue>
void launch_gemm(const GemmProblem& problem, const Epilogue& epilogue, const char*, Stream) {
  using Operand = typename Epilogue::Operand;
  const auto [m, n, k, a, b, c, d, d_rows, d_parts] = problem;
  if (m == 0) return;
  const auto grid = make_tile_grid<Epilogue>(m, n, k);
  const int width = grid.n_tiles * Epilogue::block_n;
  const auto rows = as_floats<Operand>(a, m, k, false, k),
             columns = as_floats<Operand>(b, k, n, !Epilogue::n_major_b, width);
  static Part<float, Epilogue::block_n> products;
  emulation::block_dim = dim3(3 * kWarpgroupThreads);
  for (int index = 0; index < grid.count() * kClusterSize; ++index) {
    const int tile = index / kClusterSize, rank = index % kClusterSize;
    const TileInfo at{(tile / grid.n_tiles * kClusterSize + rank) * kBlockM,
                      tile % grid.n_tiles * Epilogue::block_n, index};
    products = {};
    for (int r = 0; r < std::min(kBlockM, m - at.row); ++r) {
      float* const sums = products.values + r * Epilogue::block_n;
      for (int i = 0; i < k; ++i) {
        const float x = rows[std::size_t(at.row + r) * k + i];
        const float* const y = &columns[std::size_t(i) * width + at.column];
        for (int column = 0; column < Epilogue::block_n; ++column) sums[column] += x * y[column];
      }
    }
    // Alternates between the two consumer warpgroups; warpgroup 0 is the producer.
    emulation::run_threads((1 + index % 2) * kWarpgroupThreads, kWarpgroupThreads,
                           [&] { run_epilogue(problem, epilogue, at, products); });
  }
}

}  // namespace tg::cuda::hopper
