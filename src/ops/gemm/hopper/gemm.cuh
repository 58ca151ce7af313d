#pragma once
// C = A·Bᵀ of bf16, with something done to each tile of sums before it is rounded and written.
//
// A tile is of 128 rows and 192 or 128 columns and belongs to one warpgroup, the sums in its
// registers. Two warpgroups take turns: one multiplies while the other works on its sums, so that
// the tensor cores hardly wait. A third warpgroup only copies: one thread the factors into a ring
// of stages, one the results, in panels of 64 columns, out of a ring of slots, and into these
// beforehand the numbers that the epilogue reads. Two blocks, one tile below the other, form a
// cluster and share what they read of B: reading all of it from the L2 cache would take longer than
// multiplying.
//
// An epilogue is a type with
//   columns      of its tiles
//   n_major      whether B comes as [K, N] instead of [N, K]
//   reads_panel  whether it reads a matrix of C's shape, which then stands in the panels
//   Tile         a thread's work on a tile, made of (epilogue, Place) before the sums are there:
//     prepare(sums)                    all its sums, to be changed in place
//     finish(panel, half, sums, rows)  its 32 sums of half a panel, to be written to these rows
//     leave(panel)                     after both halves
#include "ops/gemm/hopper/ptx.cuh"
#include "ops/kernels.cuh"

namespace tg::cuda::hopper {

using Number = __nv_bfloat16;

constexpr int kRows = 128;         // of a tile
constexpr int kSwizzled = 64;      // numbers of a row that a copy with the 128-byte swizzle takes
constexpr int kDepth = kSwizzled;  // of a stage, along K
constexpr int kPanel = kSwizzled;
constexpr int kCluster = 2;
constexpr int kStagesBytes = 160 << 10, kSlots = 4;  // all that fits
constexpr int kGroup = 128;                          // threads of a warpgroup
constexpr int kGroupWarps = kGroup / kWarp;
constexpr int kProductThreads = 3 * kGroup;
constexpr int kHalfTile = 64, kHalves = kRows / kHalfTile;  // rows of one product
// 64 K registers for 3 warpgroups.
constexpr int kCopyRegisters = 24, kProductRegisters = 240;
// A turn to multiply; the hardware's barrier 0 is __syncthreads.
constexpr int kFirstTurn = 1;

template <int columns>
struct Shared {
  static constexpr int stage_bytes = (kRows + columns) * kDepth * sizeof(Number);
  static constexpr int stages = kStagesBytes / stage_bytes;
  static constexpr int panels = columns / kPanel;
  // A slot is opened only after the panel kSlots - 1 before was written. With more slots than a
  // tile has panels, whoever waits for one thus knows that the phase before the one it waits
  // for has ended, as it must: a barrier tells phases apart by parity alone.
  static_assert(kSlots > panels);

  Number a[stages][kRows * kDepth];
  Number b[stages][columns * kDepth];
  Number slots[kSlots][kRows * kPanel];
  Barrier loaded[stages], used[stages];  // the latter by both blocks
  Barrier open[kSlots], written[kSlots];
};
constexpr int kPanelBytes = kRows * kPanel * sizeof(Number);

struct Tiles {
  int columns, count;  // columns of tiles; tiles of a cluster, each of kCluster · kRows rows
  int steps;           // stages of a tile
};
struct Maps {
  CUtensorMap a, b, in, out;
};

__device__ inline int clusters() {
  return gridDim.x / kCluster;
}
__device__ inline int first_tile() {
  return blockIdx.x / kCluster;
}
struct Corner {
  int row, column;
};
// Neighbours in time share rows of A, so that these are read from memory once.
template <int columns>
__device__ Corner corner(const Tiles& tiles, int tile) {
  const int block = static_cast<int>(block_of_cluster());
  return {(tile / tiles.columns * kCluster + block) * kRows, tile % tiles.columns * columns};
}

// Loads what the tiles of this block multiply; of B only this block's share, for the whole cluster.
template <bool n_major, int columns>
__device__ void load_factors(Shared<columns>& shared, const Maps& maps, const Tiles& tiles) {
  const int block = static_cast<int>(block_of_cluster());
  constexpr std::uint16_t all = (1 << kCluster) - 1;
  int stage = 0, phase = 0;
  for (int tile = first_tile(); tile < tiles.count; tile += clusters()) {
    const auto [row, column] = corner<columns>(tiles, tile);
#pragma unroll 1
    for (int step = 0; step < tiles.steps; ++step) {
      wait(shared.used[stage], phase ^ 1);
      auto& loaded = shared.loaded[stage];
      arrive_and_expect(loaded, shared.stage_bytes);
      const int k = step * kDepth;
      load_tile(shared.a[stage], maps.a, k, row, loaded);
      if constexpr (n_major) {
        constexpr int share = kDepth / kCluster;
#pragma unroll
        for (int chunk = 0; chunk < columns / kSwizzled; ++chunk) {
          load_tile(shared.b[stage] + (chunk * kDepth + block * share) * kSwizzled, maps.b,
                    column + chunk * kSwizzled, k + block * share, loaded, all);
        }
      } else {
        constexpr int share = columns / kCluster;
        load_tile(shared.b[stage] + block * share * kDepth, maps.b, k, column + block * share,
                  loaded, all);
      }
      if (++stage == shared.stages) stage = 0, phase ^= 1;
    }
  }
}

// Opens slots to the warpgroups that multiply, with what their epilogue reads already there, and
// stores what they leave in them.
template <bool reads_panel, int columns>
__device__ void move_panels(Shared<columns>& shared, const Maps& maps, const Tiles& tiles) {
  const int own_tiles = (tiles.count - first_tile() + clusters() - 1) / clusters();
  constexpr int of_tile = shared.panels;
  const int panels = own_tiles * of_tile;
  const auto corner_of = [&](int panel) {
    auto at = corner<columns>(tiles, first_tile() + panel / of_tile * clusters());
    at.column += panel % of_tile * kPanel;
    return at;
  };
  const auto open = [&](int panel) {
    const int slot = panel % kSlots;
    if constexpr (reads_panel) {
      const auto [row, column] = corner_of(panel);
      arrive_and_expect(shared.open[slot], kPanelBytes);
      load_tile(shared.slots[slot], maps.in, column, row, shared.open[slot]);
    } else {
      arrive(shared.open[slot]);
    }
  };
#pragma unroll 1
  for (int panel = 0; panel < min(panels, kSlots); ++panel) open(panel);
#pragma unroll 1
  for (int panel = 0; panel < panels; ++panel) {
    const int slot = panel % kSlots;
    wait(shared.written[slot], panel / kSlots % 2);
    const auto [row, column] = corner_of(panel);
    store_tile(maps.out, column, row, shared.slots[slot]);
    const int next = panel - 1 + kSlots;
    if (panel > 0 && next < panels) {
      wait_stores_read<1>();
      open(next);
    }
  }
  wait_stores_read<0>();
}

// A thread's sums of a tile.
template <int columns>
struct TileSums {
  Sums<columns> half[kHalves];
};
constexpr int kPanelSums = kPanel / 2;  // of a thread, in half a panel

// The sums of this warpgroup's tile; `first_stage` counts from the start of the kernel.
template <bool n_major, int columns>
__device__ void multiply_tile(Shared<columns>& shared, int first_stage, int steps,
                              TileSums<columns>& sums) {
  int stage = first_stage % shared.stages, phase = first_stage / shared.stages % 2;
  const unsigned lane = threadIdx.x % kWarp;
  int last = 0;
  for (int step = 0; step < steps; ++step) {
    wait(shared.loaded[stage], phase);
    begin_products();
    const auto a = swizzled_factor(shared.a[stage], 1024, 16);
    const auto b = n_major ? swizzled_factor(shared.b[stage], 1024, kDepth * 128)
                           : swizzled_factor(shared.b[stage], 1024, 16);
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      // In units of 16 bytes, as descriptors count.
      const int b_offset = n_major ? k * 128 / 16 : k * 2 / 16;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        multiply<n_major>(sums.half[half], a + k * 2 / 16 + half * kHalfTile * 128 / 16,
                          b + b_offset, step > 0 || k > 0);
      }
    }
    commit_products();
    wait_products<1>();
    if (step > 0 && lane < kCluster) arrive_at(shared.used[last], lane);
    last = stage;
    if (++stage == shared.stages) stage = 0, phase ^= 1;
  }
}

// A tile's first row and column, and its number among all tiles.
struct Place {
  int row, column, number;
};

// Half of a panel in its slot. `words`: of this thread's rows (see Sums) the first and the second
// in columns 8·group and on, then both in the next 8 columns, two numbers each.
struct PanelRows {
  Number* slot;
  int half;

  __device__ void load(int group, unsigned (&words)[4]) const { load_matrices(at(group), words); }
  __device__ void store(int group, const unsigned (&words)[4]) const {
    store_matrices(at(group), words);
  }
  // Rounded sums, in the order that threads have them in.
  __device__ void store_sums(int group, const float* sums) const {
    unsigned words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = rounded_pair(sums[2 * w], sums[2 * w + 1]);
    store(group, words);
  }

 private:
  // The row that a lane names for its warp's 16. The swizzle permutes a row's groups by its number.
  __device__ Number* at(int group) const {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kGroupWarps;
    const int row = half * kHalfTile + warp * 16 + lane % 16;
    return slot + row * kPanel + ((group + lane / 16) ^ (row % 8)) * 8;
  }
};

template <typename Epilogue, int columns>
__device__ void multiply_and_finish(Shared<columns>& shared, const Tiles& tiles,
                                    const Epilogue& epilogue) {
  const int group = threadIdx.x / kGroup - 1, other = 1 - group;
  const int lane = threadIdx.x % kWarp;
  if (group == 1) arrive_named(kFirstTurn, 2 * kGroup);
  TileSums<columns> sums;
  for (int i = group;; i += 2) {
    const int tile = first_tile() + i * clusters();
    if (tile >= tiles.count) break;
    const auto [row, column] = corner<columns>(tiles, tile);

    sync_named(kFirstTurn + group, 2 * kGroup);
    multiply_tile<Epilogue::n_major>(shared, i * tiles.steps, tiles.steps, sums);
    arrive_named(kFirstTurn + other, 2 * kGroup);
    typename Epilogue::Tile work(
        epilogue, {row, column, tile * kCluster + static_cast<int>(block_of_cluster())});
    wait_products<0>();
    if (lane < kCluster)
      arrive_at(shared.used[(i * tiles.steps + tiles.steps - 1) % shared.stages], lane);
#pragma unroll
    for (auto& half : sums.half) half.settle();
    work.prepare(sums);

#pragma unroll
    for (int p = 0; p < shared.panels; ++p) {
      const int panel = i * shared.panels + p, slot = panel % kSlots;
      wait(shared.open[slot], panel / kSlots % 2);
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
        work.finish(p, half, sums.half[half].of + p * kPanelSums,
                    PanelRows{shared.slots[slot], half});
      fence_shared_writes();
      __syncwarp();
      if (lane == 0) arrive(shared.written[slot]);
      work.leave(p);
    }
  }
}

template <typename Epilogue>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kProductThreads, 1)
    product_kernel(const __grid_constant__ Maps maps, Tiles tiles,
                   const __grid_constant__ Epilogue epilogue) {
  extern __shared__ __align__(1024) unsigned char memory[];
  using Memory = Shared<Epilogue::columns>;
  Memory& shared = *reinterpret_cast<Memory*>(memory);
  if (threadIdx.x == 0) {
    for (int s = 0; s < Memory::stages; ++s) {
      init(shared.loaded[s], 1);
      init(shared.used[s], kCluster * kGroupWarps);
    }
    for (int s = 0; s < kSlots; ++s) {
      init(shared.open[s], 1);
      init(shared.written[s], kGroupWarps);
    }
    fence_inits();
  }
  sync_cluster();
  if (threadIdx.x < kGroup) {
    give_registers<kCopyRegisters>();
    if (threadIdx.x == 0) {
      load_factors<Epilogue::n_major>(shared, maps, tiles);
    } else if (threadIdx.x == kWarp) {
      move_panels<Epilogue::reads_panel>(shared, maps, tiles);
    }
  } else {
    take_registers<kProductRegisters>();
    multiply_and_finish(shared, tiles, epilogue);
  }
  // Until both blocks are here, either may still write to the other's shared memory.
  __syncwarp();
  sync_cluster();
}

}  // namespace tg::cuda::hopper
