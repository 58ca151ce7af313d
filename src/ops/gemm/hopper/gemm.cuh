#pragma once
// Persistent, warp-specialised GEMM in bf16, fp16 or FP8: D = epilogue(A·Bᵀ, C), accumulated in
// fp32. 16-bit D and C are row-major. FP8 D and C are transposed, [N, M], with M interleaved
// (kInterleavedRows), as weight-gradient GEMMs read them along M; D is written row-major, too, for
// the next GEMM.
//
// A CTA has three warpgroups. Warpgroup 0 issues TMA only: thread 0 is the producer, which loads A
// and B into the stages of the pipeline, and thread 32 the epilogue's TMA thread, which loads
// subtiles of C (if the epilogue reads it) and stores subtiles of D. Warpgroups 1 and 2 are the
// consumers, with a ping-pong schedule: each processes whole tiles, and while one runs its mainloop
// the other runs its epilogue, which keeps the tensor cores busy.
//
// A tile is 128 x block_n (192 or 128); the epilogue stores it in subtiles of 64 columns. Two CTAs
// with vertically adjacent tiles form a cluster and multicast B to each other: without multicast,
// reading B from L2 would take longer than the MMAs.
//
// Members of an Epilogue type:
//   Element    of C and D: __nv_bfloat16, __half, __nv_fp8_e4m3 or __nv_fp8_e5m2
//   Operand    of A and B: __nv_bfloat16, __half, or __nv_fp8_e4m3, whose scales the epilogue
//              applies
//   block_n    columns of a tile
//   n_major_b  whether B is [K, N] instead of [N, K]; not with FP8 operands
//   reads_c    whether it reads C [M, N]; C's subtile is then in the smem buffer that D's
//              subtile overwrites
//   Tile       the state of a consumer thread for one tile, constructed from (epilogue, TileInfo)
//              before the accumulators are ready:
//     transform(accumulators)   changes the tile's accumulators in place, before they are stored
//     store_subtile(subtile, mma, accumulators, smem)
//                               writes the thread's 32 accumulators of one wgmma tile of the
//                               subtile to shared memory
//     end_subtile(subtile)      is called after all wgmma tiles of the subtile
#include "ops/gemm/hopper/ptx.cuh"
#include "ops/gemm/hopper/tile.cuh"

namespace tg::cuda::hopper {

constexpr int kSwizzleBytes = 128;                   // bytes per row in smem: the swizzle span
constexpr int kSwizzleElements = kSwizzleBytes / 2;  // 16-bit elements
static_assert(kSubtileN == kSwizzleElements);
// Elements along K per stage: a stage holds kSwizzleBytes of each row of A and B.
template <typename Operand>
constexpr int kBlockK = kSwizzleBytes / sizeof(Operand);
constexpr int kWgmmaKBytes = 32;  // bytes of a row per wgmma
constexpr int kStripTiles = 16;
// 160 KiB of pipeline stages and 4 epilogue buffers of up to 16 KiB: 224 of a CTA's 227 KiB of
// smem.
constexpr int kPipelineBytes = 160 << 10, kEpilogueBuffers = 4;
constexpr int kGemmThreads = 3 * kWarpgroupThreads;
// Registers per thread: 128·24 + 256·240 of the 64 Ki of an SM.
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
// Named barriers kOrderBarrier and kOrderBarrier + 1 order the consumers' mainloops; id 0 is
// __syncthreads.
constexpr int kOrderBarrier = 1;

template <typename Operand, typename Element, int block_n>
struct SharedStorage {
  static constexpr int block_k = kBlockK<Operand>;
  static constexpr int stage_bytes = (kBlockM + block_n) * kSwizzleBytes;
  static constexpr int stages = kPipelineBytes / stage_bytes;
  static constexpr int subtiles = block_n / kSubtileN;
  static constexpr int subtile_bytes = kBlockM * kSubtileN * sizeof(Element);
  static constexpr int outputs = is_transposed<Element> ? 2 : 1;
  // Buffer b is made ready for subtile s only after subtile s - (kEpilogueBuffers - 1) was written.
  // With more buffers than subtiles per tile, a consumer that waits for a phase thus knows that the
  // previous phase has completed, as required: mbarriers distinguish phases only by parity.
  static_assert(kEpilogueBuffers > subtiles);

  Operand a[stages][kBlockM * block_k];
  Operand b[stages][block_n * block_k];
  Element epilogue[kEpilogueBuffers][outputs][kBlockM * kSubtileN];
  Barrier full[stages];                        // A and B are loaded
  Barrier empty[stages];                       // the consumers of both CTAs have read them
  Barrier epilogue_ready[kEpilogueBuffers];    // free, and C's subtile loaded if reads_c
  Barrier epilogue_written[kEpilogueBuffers];  // D's subtile is complete
};

struct TileGrid {
  int n_tiles,
      m_tiles;                          // along M, in cluster tiles of kClusterSize · kBlockM rows
  int k_blocks;                         // stages per tile
  int part_rows = 0, part_columns = 0;  // of GemmProblem::d_parts; 0: one part

  __host__ __device__ int count() const { return n_tiles * m_tiles; }
};
struct TensorMaps {
  CUtensorMap a, b, c, d;
  CUtensorMap rows;  // FP8: of the row-major D
};
__device__ inline int num_clusters() {
  return gridDim.x / kClusterSize;
}
// Index of this cluster's first tile; the stride is num_clusters().
__device__ inline int first_tile() {
  return blockIdx.x / kClusterSize;
}
struct TileCoord {
  int row, column;  // of the first element
};
// Rasterization in strips of kStripTiles tiles along N: consecutive tiles share rows of A, which
// are read from memory once per strip, while the strip's rows of B stay in L2.
template <int block_n>
__device__ TileCoord tile_coord(const TileGrid& grid, int tile_index) {
  const int rank = static_cast<int>(cta_rank());
  const int strip = tile_index / (kStripTiles * grid.m_tiles);
  const int first = strip * kStripTiles, width = min(kStripTiles, grid.n_tiles - first);
  const int in_strip = tile_index - first * grid.m_tiles;
  return {(in_strip / width * kClusterSize + rank) * kBlockM, (first + in_strip % width) * block_n};
}

// Producer thread: loads A and B for all tiles of this CTA. Each CTA of the cluster loads its slice
// of B and multicasts it to the cluster.
template <bool n_major_b, typename Operand, typename Element, int block_n>
__device__ void run_producer(SharedStorage<Operand, Element, block_n>& shared,
                             const TensorMaps& maps, const TileGrid& grid) {
  static_assert(!n_major_b || sizeof(Operand) == 2);
  constexpr int block_k = shared.block_k;
  const int rank = static_cast<int>(cta_rank());
  constexpr std::uint16_t all_ctas = (1 << kClusterSize) - 1;
  int stage = 0, phase = 0;
  for (int tile = first_tile(); tile < grid.count(); tile += num_clusters()) {
    const auto [row, column] = tile_coord<block_n>(grid, tile);
#pragma unroll 1
    for (int k_block = 0; k_block < grid.k_blocks; ++k_block) {
      mbarrier_wait(shared.empty[stage], phase ^ 1);
      auto& full = shared.full[stage];
      mbarrier_arrive_expect_tx(full, shared.stage_bytes);
      const int k = k_block * block_k;
      tma_load(shared.a[stage], maps.a, k, row, full);
      if constexpr (n_major_b) {
        constexpr int slice = block_k / kClusterSize;
#pragma unroll
        for (int chunk = 0; chunk < block_n / kSwizzleElements; ++chunk) {
          tma_load_multicast(shared.b[stage] + (chunk * block_k + rank * slice) * kSwizzleElements,
                             maps.b, column + chunk * kSwizzleElements, k + rank * slice, full,
                             all_ctas);
        }
      } else if constexpr (is_transposed<Element>) {
        constexpr int slice = block_n / kClusterSize;
        static_assert(slice % kReorderedColumns == 0);
        tma_load_multicast(shared.b[stage] + rank * slice * block_k, maps.b, k, 0, 0, 0,
                           (column + rank * slice) / kReorderedColumns, full, all_ctas);
      } else {
        constexpr int slice = block_n / kClusterSize;
        tma_load_multicast(shared.b[stage] + rank * slice * block_k, maps.b, k,
                           column + rank * slice, full, all_ctas);
      }
      if (++stage == shared.stages) stage = 0, phase ^= 1;
    }
  }
}

// Epilogue TMA thread: prefetches C's subtiles into shared memory and stores D's finished ones.
template <bool reads_c, typename Operand, typename Element, int block_n>
__device__ void run_epilogue_tma(SharedStorage<Operand, Element, block_n>& shared,
                                 const TensorMaps& maps, const TileGrid& grid) {
  const int own_tiles = (grid.count() - first_tile() + num_clusters() - 1) / num_clusters();
  constexpr int per_tile = shared.subtiles;
  const int subtiles = own_tiles * per_tile;  // of all tiles; indexed consecutively below
  const auto subtile_coord = [&](int subtile) {
    auto coord = tile_coord<block_n>(grid, first_tile() + subtile / per_tile * num_clusters());
    coord.column += subtile % per_tile * kSubtileN;
    if (!reads_c && grid.part_columns > 0) {
      coord.row += coord.column / grid.part_columns * grid.part_rows;
      coord.column %= grid.part_columns;
    }
    // TMA coordinates: the contiguous dimension first.
    return is_transposed<Element> ? int2{coord.row, coord.column} : int2{coord.column, coord.row};
  };
  const auto make_ready = [&](int subtile) {
    const int buffer = subtile % kEpilogueBuffers;
    if constexpr (reads_c) {
      const auto [x, y] = subtile_coord(subtile);
      mbarrier_arrive_expect_tx(shared.epilogue_ready[buffer], shared.subtile_bytes);
      tma_load(shared.epilogue[buffer][0], maps.c, x, y, shared.epilogue_ready[buffer]);
    } else {
      mbarrier_arrive(shared.epilogue_ready[buffer]);
    }
  };
#pragma unroll 1
  for (int subtile = 0; subtile < min(subtiles, kEpilogueBuffers); ++subtile) make_ready(subtile);
#pragma unroll 1
  for (int subtile = 0; subtile < subtiles; ++subtile) {
    const int buffer = subtile % kEpilogueBuffers;
    mbarrier_wait(shared.epilogue_written[buffer], subtile / kEpilogueBuffers % 2);
    const auto [x, y] = subtile_coord(subtile);
    tma_store(maps.d, x, y, shared.epilogue[buffer][0]);
    if constexpr (is_transposed<Element>) tma_store(maps.rows, y, x, shared.epilogue[buffer][1]);
    const int next = subtile - 1 + kEpilogueBuffers;  // reuses the buffer of the previous store
    if (subtile > 0 && next < subtiles) {
      tma_store_wait_read<shared.outputs>();
      make_ready(next);
    }
  }
  tma_store_wait_read<0>();
}

// A consumer thread's accumulators of a tile.
template <int block_n>
struct Accumulators {
  WgmmaAccumulators<block_n> mma[kWgmmaTiles];
};

// Computes one tile's accumulators. On return the last wgmma group is still in flight and its stage
// not yet released. `first_k_block` counts the CTA's k blocks since the start of the kernel.
template <bool n_major_b, typename Operand, typename Element, int block_n>
__device__ void mainloop(SharedStorage<Operand, Element, block_n>& shared, int first_k_block,
                         int k_blocks, Accumulators<block_n>& accumulators) {
  int stage = first_k_block % shared.stages, phase = first_k_block / shared.stages % 2;
  const unsigned lane = threadIdx.x % kWarp;
  int previous_stage = 0;
  for (int k_block = 0; k_block < k_blocks; ++k_block) {
    mbarrier_wait(shared.full[stage], phase);
    wgmma_fence();
    const auto a = smem_descriptor(shared.a[stage], 1024, 16);
    const auto b = n_major_b ? smem_descriptor(shared.b[stage], 1024, shared.block_k * 128)
                             : smem_descriptor(shared.b[stage], 1024, 16);
#pragma unroll
    for (int byte = 0; byte < kSwizzleBytes; byte += kWgmmaKBytes) {
      // Descriptors count in units of 16 bytes.
      const int a_offset = byte / 16;
      const int b_offset = n_major_b ? byte / 2 * 128 / 16 : a_offset;
#pragma unroll
      for (int mma = 0; mma < kWgmmaTiles; ++mma) {
        wgmma<Operand, n_major_b>(accumulators.mma[mma],
                                  a + a_offset + mma * kWgmmaM * kSwizzleBytes / 16, b + b_offset,
                                  k_block > 0 || byte > 0);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();
    // Each warp releases the previous stage to the producers of both CTAs.
    if (k_block > 0 && lane < kClusterSize)
      mbarrier_arrive_remote(shared.empty[previous_stage], lane);
    previous_stage = stage;
    if (++stage == shared.stages) stage = 0, phase ^= 1;
  }
}

// One wgmma tile (64 rows) of a subtile in shared memory, with TMA's 128-byte swizzle. `chunk`
// counts the 16-byte chunks (8 columns) of a row. A thread's words hold pairs of elements in the
// layout of its accumulators (WgmmaAccumulators): its two rows at columns from 8·chunk on, then its
// two rows at the next 8 columns.
template <typename Element, bool transposed = is_transposed<Element>>
struct SubtileView {
  Element* smem;
  int mma;

  __device__ void load(int chunk, unsigned (&words)[4]) const {
    ldmatrix_x4(address(chunk), words);
  }
  __device__ void store(int chunk, const unsigned (&words)[4]) const {
    stmatrix_x4(address(chunk), words);
  }
  // Rounds 8 accumulators and stores them.
  __device__ void store_rounded(int chunk, const float* accumulators) const {
    unsigned words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w)
      words[w] = rounded_pair<Element>(accumulators[2 * w], accumulators[2 * w + 1]);
    store(chunk, words);
  }

 private:
  // Returns the 16-byte row of the warp's 16 rows that this lane passes to ldmatrix and stmatrix.
  // The swizzle XORs the chunk with the row.
  __device__ Element* address(int chunk) const {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kWarpgroupWarps;
    const int row = mma * kWgmmaM + warp * 16 + lane % 16;
    return smem + row * kSubtileN + ((chunk + lane / 16) ^ (row % 8)) * 8;
  }
};

// FP8: the transpose of the wgmma tile, 64 columns of 128 bytes, one byte per row, rows
// interleaved. load() and store() take `chunk` in steps of 4, with one word for each of the four
// chunks: the low half holds the thread's two rows of its first column, the high half the two rows
// of its second column. Behind it the rows of D, of 64 bytes with TMA's 64-byte swizzle.
template <typename Element>
struct SubtileView<Element, true> {
  Element* smem;
  int mma;

  __device__ void load(int chunk, unsigned (&words)[4]) const {
    ldmatrix_x4_trans(address(chunk), words);
  }
  __device__ void store(int chunk, const unsigned (&words)[4]) const {
    stmatrix_x4_trans(address(chunk), words);
  }
  // Stores four adjacent columns of the thread's two rows, of chunks `chunk` and `chunk` + 1, then
  // of the next two.
  __device__ void store_rows(int chunk, const unsigned (&words)[4]) const {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kWarpgroupWarps;
    const int row = mma * kWgmmaM + warp * 16 + lane % 16, part = chunk / 2 + lane / 16;
    Element* const rows = smem + kBlockM * kSubtileN;
    stmatrix_x4(rows + row * kSubtileN + (part ^ row / 2 % 4) * 16, words);
  }

 private:
  // Returns the 16 bytes (one column, all rows of the warp) that this lane passes to ldmatrix and
  // stmatrix.
  __device__ Element* address(int chunk) const {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kWarpgroupWarps;
    const int column = chunk * 8 + reordered_column(lane), rows = mma * kWgmmaM / 16 + warp;
    return smem + column * kBlockM + (rows ^ (column % 8)) * 16;
  }
};

// Consumer warpgroup: mainloop and epilogue of every second tile of this CTA.
template <typename Epilogue, typename Operand, typename Element, int block_n>
__device__ void run_consumer(SharedStorage<Operand, Element, block_n>& shared, const TileGrid& grid,
                             const Epilogue& epilogue) {
  const int consumer = threadIdx.x / kWarpgroupThreads - 1, other = 1 - consumer;
  const int lane = threadIdx.x % kWarp;
  if (consumer == 1) named_barrier_arrive(kOrderBarrier, 2 * kWarpgroupThreads);
  Accumulators<block_n> accumulators;
  for (int i = consumer;; i += 2) {
    const int tile = first_tile() + i * num_clusters();
    if (tile >= grid.count()) break;
    const auto [row, column] = tile_coord<block_n>(grid, tile);

    named_barrier_sync(kOrderBarrier + consumer, 2 * kWarpgroupThreads);
    mainloop<Epilogue::n_major_b>(shared, i * grid.k_blocks, grid.k_blocks, accumulators);
    named_barrier_arrive(kOrderBarrier + other, 2 * kWarpgroupThreads);
    typename Epilogue::Tile tile_epilogue(
        epilogue, {row, column, tile * kClusterSize + static_cast<int>(cta_rank())});
    wgmma_wait<0>();
    if (lane < kClusterSize)
      mbarrier_arrive_remote(shared.empty[(i * grid.k_blocks + grid.k_blocks - 1) % shared.stages],
                             lane);
#pragma unroll
    for (auto& mma : accumulators.mma) mma.fence();
    if constexpr (requires { tile_epilogue.transform(accumulators); })
      tile_epilogue.transform(accumulators);

#pragma unroll
    for (int subtile = 0; subtile < shared.subtiles; ++subtile) {
      const int count = i * shared.subtiles + subtile, buffer = count % kEpilogueBuffers;
      mbarrier_wait(shared.epilogue_ready[buffer], count / kEpilogueBuffers % 2);
#pragma unroll
      for (int mma = 0; mma < kWgmmaTiles; ++mma)
        tile_epilogue.store_subtile(subtile, mma,
                                    accumulators.mma[mma].values + subtile * kSubtileAccumulators,
                                    SubtileView<Element>{shared.epilogue[buffer][0], mma});
      fence_proxy_async_shared();
      __syncwarp();
      if (lane == 0) mbarrier_arrive(shared.epilogue_written[buffer]);
      tile_epilogue.end_subtile(subtile);
    }
  }
}

// The name must not contain "gemm": tests/ops/sanitize.py excludes cuBLAS's kernels by that word.
template <typename Epilogue>
__global__ void __cluster_dims__(kClusterSize, 1, 1) __launch_bounds__(kGemmThreads, 1)
    wgmma_kernel(const __grid_constant__ TensorMaps maps, TileGrid grid,
                 const __grid_constant__ Epilogue epilogue) {
  extern __shared__ __align__(1024) unsigned char memory[];
  using Storage =
      SharedStorage<typename Epilogue::Operand, typename Epilogue::Element, Epilogue::block_n>;
  Storage& shared = *reinterpret_cast<Storage*>(memory);
  if (threadIdx.x == 0) {
    for (int s = 0; s < Storage::stages; ++s) {
      mbarrier_init(shared.full[s], 1);
      mbarrier_init(shared.empty[s], kClusterSize * kWarpgroupWarps);
    }
    for (int s = 0; s < kEpilogueBuffers; ++s) {
      mbarrier_init(shared.epilogue_ready[s], 1);
      mbarrier_init(shared.epilogue_written[s], kWarpgroupWarps);
    }
    fence_mbarrier_init();
  }
  cluster_sync();
  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dealloc<kProducerRegisters>();
    if (threadIdx.x == 0) {
      run_producer<Epilogue::n_major_b>(shared, maps, grid);
    } else if (threadIdx.x == kWarp) {
      run_epilogue_tma<Epilogue::reads_c>(shared, maps, grid);
    }
  } else {
    setmaxnreg_alloc<kConsumerRegisters>();
    run_consumer(shared, grid, epilogue);
  }
  // A CTA must not exit while the other may still multicast to its shared memory or arrive at its
  // barriers.
  __syncwarp();
  cluster_sync();
}

}  // namespace tg::cuda::hopper
