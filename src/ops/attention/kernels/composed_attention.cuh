#pragma once
// Device code shared by the kernels of composed_attention_kernel.h. A CTA owns 64 rows of a
// sequence: queries, whose columns are keys, or keys, whose columns are queries. Each of its four
// warps owns 16 rows. A query sees keys up to itself and a key is seen by queries from itself on,
// so that a warp's scores are a band of at most nine tiles of 16×16: tile 0 on the diagonal, the
// others before it (keys) or behind it (queries). A warp holds such bands of fp32 in registers;
// vectors of a head are in shared memory.
#include <cmath>

#include "ops/attention/kernels/composed_attention_kernel.h"
#include "ops/kernels.cuh"
#include "ops/mma.cuh"

namespace tg::cuda::composed {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kCtasPerSm = 2;  // one loads while the other computes
constexpr int kTile = 16;
constexpr int kRows = kWarps * kTile;
constexpr int kTiles = kMaxComposedWindow / kTile + 1;
constexpr int kMaxColumns = kRows + kMaxComposedWindow;
constexpr float kLog2E = 1.4426950408889634f;

// A tile's elements that a thread holds, in the layout of mma_16x8x16() for columns 0 to 7, then 8
// to 15.
struct Tile {
  float values[8] = {};

  // Calls visit(element, 0 or 1 for row lane / 4 or the eighth after it, column).
  template <typename Visit>
  __device__ static void for_each(Visit visit) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int e = 0; e < 8; ++e) visit(e, e / 2 % 2, e / 4 * 8 + column + e % 2);
  }
};

// A tile rounded to T, which is operand A of an mma.
template <typename T>
struct RoundedTile {
  unsigned words[4];

  RoundedTile() = default;
  __device__ explicit RoundedTile(const Tile& tile) {
#pragma unroll
    for (int w = 0; w < 4; ++w)
      words[w] = rounded_pair<T>(tile.values[2 * w], tile.values[2 * w + 1]);
  }
  __device__ float operator[](int e) const {
    return e % 2 == 0 ? low_of<T>(words[e / 2]) : high_of<T>(words[e / 2]);
  }
};

template <typename T>
__device__ inline void round(const Tile (&band)[kTiles], RoundedTile<T> (&rounded)[kTiles]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) rounded[tile] = RoundedTile<T>(band[tile]);
}

// Sums of 16 rows over all channels of a head, in the layout of mma_16x8x16() by 8 channels.
template <int head_dim>
struct RowSums {
  float values[head_dim / 8][4] = {};
};

// Vectors of a head in shared memory. The 16-byte chunks of a row are permuted by its index, so
// that accesses to the same channels of eight rows have no bank conflicts.
template <typename T, int head_dim>
struct Vectors {
  static constexpr int chunks = head_dim / Pack<T>::size;
  T* data;

  __device__ static int chunk_offset(int row, int index) {
    return row * head_dim + (index ^ (row & 7)) * Pack<T>::size;
  }
  __device__ T* chunk(int row, int index) const { return data + chunk_offset(row, index); }
  // The chunk that this lane passes to ldmatrix_x4() for 16 rows, from a multiple of 8 on, and 16
  // channels: matrices of rows 0 to 7, 8 to 15 of the first eight channels, then of the others.
  __device__ T* lane_chunk(int row, int channels) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    return data + row * head_dim + chunk_offset(lane % kTile, channels * 2 + lane / kTile);
  }
  // Starts to load `count` vectors from position `first` of a sequence on; zeros outside of it.
  __device__ void load(const T* sequence, std::int64_t token_stride, int seq_len, int first,
                       int count) const {
    constexpr int rows = kThreads / chunks;  // at once
    static_assert(rows % 8 == 0, "a thread's chunks would be permuted differently");
    const int thread = static_cast<int>(threadIdx.x), row = thread / chunks,
              index = thread % chunks;
    T* to = chunk(row, index);
    std::int64_t from = (first + row) * token_stride + index * Pack<T>::size;
#pragma unroll 1  // unrolled, the addresses would be kept in registers over all heads
    for (int i = row; i < count; i += rows) {
      const bool inside = first + i >= 0 && first + i < seq_len;
      cp_async(to, sequence + (inside ? from : 0), inside);
      to += rows * head_dim;
      from += rows * token_stride;
    }
  }
};

// The rows of a CTA with the columns that they see, and of them this warp's band.
template <typename T, int head_dim, bool columns_are_keys>
class Block {
 public:
  static constexpr int kColumnValues = 3;  // per column, of a head

  __device__ Block(const ComposedShape& shape, const ComposedInputs& in, unsigned char* memory)
      : shape_(shape),
        lead_((shape.window + kTile - 2) / kTile * kTile),
        sequence_(static_cast<int>(blockIdx.y)),
        first_(static_cast<int>(blockIdx.x) * kRows),
        warp_row_(static_cast<int>(threadIdx.x) / kWarp * kTile),
        rows_{reinterpret_cast<T*>(memory)},
        columns_{rows_.data + kRows * head_dim},
        values_(reinterpret_cast<float*>(columns_.data + kMaxColumns * head_dim)) {
    const int first = first_ + warp_row_;
    const auto at = std::int64_t{sequence_} * shape.seq_len;
    const auto limit = [&](int row) {  // begin of the visible keys, or end of the queries
      if (row >= shape.seq_len) return columns_are_keys ? row : shape.seq_len;
      return (columns_are_keys ? in.visible_from : in.visible_until)[at + row];
    };
    const int seen =
        columns_are_keys ? first + kTile - limit(first) : limit(first + kTile - 1) - first;
    tiles_ = (seen + kTile - 1) / kTile;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = row(half);
      begin_[half] = (columns_are_keys ? limit(position) : position) - first;
      end_[half] = (columns_are_keys ? position + 1 : limit(position)) - first;
    }
  }
  static constexpr int shared_bytes =
      (kRows + kMaxColumns) * head_dim * static_cast<int>(sizeof(T)) +
      kColumnValues * kMaxColumns * static_cast<int>(sizeof(float));

  // Loads a head's operands with `loads`, a sequence of the calls below. All threads must call it.
  template <typename Loads>
  __device__ void stage(Loads loads) const {
    __syncthreads();  // the previous operands are no longer read
    loads();
    cp_async_wait_all();
    __syncthreads();
  }
  __device__ void load_rows(const HeadVectors& from, int head) const {
    rows_.load(head_of(from, head), from.token_stride, shape_.seq_len, first_, kRows);
  }
  __device__ void load_columns(const HeadVectors& from, int head) const {
    columns_.load(head_of(from, head), from.token_stride, shape_.seq_len, first_column(),
                  kRows + lead_);
  }
  // `slot`: which of kColumnValues; from [B, heads, T].
  __device__ void load_column_values(int slot, const float* from, int head) const {
    for (int i = static_cast<int>(threadIdx.x); i < kRows + lead_; i += kThreads) {
      const int position = first_column() + i;
      const bool inside = position >= 0 && position < shape_.seq_len;
      values_[slot * kMaxColumns + i] = inside ? from[value_index(head, position)] : 0.0f;
    }
  }

  // Calls visit(tile) for the tiles of the band; unrolled, since tiles are in registers.
  template <typename Visit>
  __device__ void for_each_tile(Visit visit) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      if (tile < tiles_) visit(tile);
  }
  __device__ bool visible(int tile, int half, int column) const {
    const int at = (columns_are_keys ? -tile : tile) * kTile + column;
    return at >= begin_[half] && at < end_[half];
  }
  // A column's value of load_column_values(), for element `e` of a tile.
  struct ColumnValues {
    float2 pairs[2];
    __device__ float operator[](int e) const {
      return e % 2 == 0 ? pairs[e / 4].x : pairs[e / 4].y;
    }
  };
  __device__ ColumnValues column_values(int slot, int tile) const {
    const float* const from =
        values_ + slot * kMaxColumns + column_row(tile) + static_cast<int>(threadIdx.x) % 4 * 2;
    return {{*reinterpret_cast<const float2*>(from), *reinterpret_cast<const float2*>(from + 8)}};
  }

  // The vectors of this warp's rows, as operands A.
  struct RowOperands {
    unsigned words[head_dim / kTile][4];
  };
  __device__ RowOperands row_operands() const {
    RowOperands operands;
#pragma unroll
    for (int c = 0; c < head_dim / kTile; ++c)
      ldmatrix_x4(rows_.lane_chunk(warp_row_, c), operands.words[c]);
    return operands;
  }
  // Returns the dot products of this warp's rows with a tile's columns.
  __device__ Tile products(const RowOperands& rows, int tile) const {
    Tile sums;
#pragma unroll
    for (int c = 0; c < head_dim / kTile; ++c) {
      unsigned b[4];
      ldmatrix_x4(columns_.lane_chunk(column_row(tile), c), b);
      mma_16x8x16<T>(sums.values, rows.words[c], b[0], b[2]);
      mma_16x8x16<T>(sums.values + 4, rows.words[c], b[1], b[3]);
    }
    return sums;
  }
  // Adds weights · the vectors of a tile's columns.
  __device__ void add_columns(RowSums<head_dim>& sums, const RoundedTile<T>& weights,
                              int tile) const {
#pragma unroll
    for (int c = 0; c < head_dim / kTile; ++c) {
      unsigned b[4];
      ldmatrix_x4_trans(columns_.lane_chunk(column_row(tile), c), b);
      mma_16x8x16<T>(sums.values[2 * c], weights.words, b[0], b[1]);
      mma_16x8x16<T>(sums.values[2 * c + 1], weights.words, b[2], b[3]);
    }
  }
  // Returns P of a tile; logsumexp(element, half) returns the logsumexp of the element's query.
  template <typename LogSumExp>
  __device__ Tile shares(const RowOperands& rows, int tile, LogSumExp logsumexp) const {
    Tile p = products(rows, tile);
    const float scale = shape_.scale * kLog2E;
    Tile::for_each([&](int e, int half, int column) {
      const float share = fast_exp2(p.values[e] * scale - logsumexp(e, half));
      p.values[e] = visible(tile, half, column) ? share : 0.0f;
    });
    return p;
  }

  // Position in the sequence of this thread's first or second row.
  __device__ int row(int half) const {
    return first_ + warp_row_ + static_cast<int>(threadIdx.x) % kWarp / 4 + half * 8;
  }
  // A row's element of a tensor [B, heads, T]; 0 behind the sequence.
  __device__ float row_value(const float* from, int head, int half) const {
    return row(half) < shape_.seq_len ? from[value_index(head, row(half))] : 0.0f;
  }
  // Sums `values` over the four lanes of each row and stores them to [B, heads, T].
  __device__ void store_row_sums(const float (&values)[2], float* to, int head) const {
    store_row_values({warp_sum<4>(values[0]), warp_sum<4>(values[1])}, to, head);
  }
  __device__ void store_row_values(const float (&values)[2], float* to, int head) const {
    if (threadIdx.x % 4 != 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (row(half) < shape_.seq_len) to[value_index(head, row(half))] = values[half];
  }
  // Stores scale[half]·sums to [B, T, heads, hd], by way of this warp's rows in shared memory.
  __device__ void store(const RowSums<head_dim>& sums, const float (&scale)[2], int head,
                        T* to) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    __syncwarp();
#pragma unroll
    for (int c = 0; c < head_dim / 8; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* const pair = sums.values[c] + 2 * half;
        T* const chunk = rows_.chunk(warp_row_ + lane / 4 + half * 8, c);
        *reinterpret_cast<unsigned*>(chunk + lane % 4 * 2) =
            rounded_pair<T>(scale[half] * pair[0], scale[half] * pair[1]);
      }
    }
    __syncwarp();
    constexpr int chunks = Vectors<T, head_dim>::chunks;
#pragma unroll 2  // as in load()
    for (int i = lane; i < kTile * chunks; i += kWarp) {
      const int row = warp_row_ + i / chunks;
      if (first_ + row >= shape_.seq_len) continue;
      const auto token = std::int64_t{sequence_} * shape_.seq_len + first_ + row;
      store_pack(to + (token * shape_.heads + head) * head_dim + i % chunks * Pack<T>::size,
                 load_pack(rows_.chunk(row, i % chunks)));
    }
  }

 private:
  __device__ const T* head_of(const HeadVectors& from, int head) const {
    return static_cast<const T*>(from.data) +
           std::int64_t{sequence_} * shape_.seq_len * from.token_stride + head * from.head_stride;
  }
  __device__ std::int64_t value_index(int head, int position) const {
    return (std::int64_t{sequence_} * shape_.heads + head) * shape_.seq_len + position;
  }
  // Position of the first column in shared memory, and the place there of a tile's first column.
  __device__ int first_column() const {
    return columns_are_keys ? first_ - lead_ : first_;
  }
  __device__ int column_row(int tile) const {
    return warp_row_ + (columns_are_keys ? lead_ - tile * kTile : tile * kTile);
  }

  const ComposedShape& shape_;
  const int lead_;  // columns besides the rows' own, in whole tiles
  const int sequence_, first_, warp_row_;
  const Vectors<T, head_dim> rows_, columns_;
  float* const values_;    // [kColumnValues, kMaxColumns]
  int tiles_;              // of the band that any row sees
  int begin_[2], end_[2];  // columns that a row sees, counted from the first column of tile 0
};

template <typename T, int head_dim>
using QueryBlock = Block<T, head_dim, true>;
template <typename T, int head_dim>
using KeyBlock = Block<T, head_dim, false>;

// Calls op(T{}, head_dim).
template <typename Op>
void dispatch_composed(Dtype dtype, int head_dim, Op op) {
  dispatch_half(dtype, [&](auto zero) {
    if (head_dim == 64) return op(zero, std::integral_constant<int, 64>{});
    op(zero, std::integral_constant<int, 128>{});
  });
}

// Launches a kernel with a CTA for each 64 rows.
template <typename Kernel, typename... Arguments>
void launch(Kernel kernel, int shared_bytes, const ComposedShape& shape, Stream stream,
            const Arguments&... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                       cudaSharedmemCarveoutMaxShared);
  const dim3 grid(static_cast<unsigned>((shape.seq_len + kRows - 1) / kRows),
                  static_cast<unsigned>(shape.batch));
  kernel<<<grid, kThreads, static_cast<std::size_t>(shared_bytes), stream>>>(shape, arguments...);
}

}  // namespace tg::cuda::composed
