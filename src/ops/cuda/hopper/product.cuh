#pragma once
// C = A·Bᵀ of bf16, with something done to each tile of sums before it is rounded and written.
//
// A tile is 128×192 and belongs to one warpgroup, the sums in its registers. Two warpgroups take
// turns: one multiplies while the other works on its sums, so that the tensor cores hardly wait. A
// third warpgroup only copies: one thread the factors into a ring of stages, one the results, in
// panels of 64 columns, out of a ring of slots, and into these beforehand the numbers that the
// epilogue reads. Two blocks, one tile below the other, form a cluster and share what they read of
// B: reading all of it from the L2 cache would take longer than multiplying.
//
// An epilogue is a type with
//   n_major     whether B comes as [K, N] instead of [N, K]
//   reads_panel whether it reads a matrix of C's shape
//   operator()(sums, words, signs): 8 sums of a thread → 4 words of two bf16 each, which held that
//               matrix's numbers. `signs` takes a bit a number from an epilogue that does not read
//               to one that does, each next number's at the lower end.
#include "ops/cuda/device.cuh"
#include "ops/cuda/hopper/instructions.cuh"

namespace tg::cuda::hopper {

using Number = __nv_bfloat16;

constexpr int kRows = 128, kColumns = 192;  // of a tile
constexpr int kSwizzled = 64;      // numbers of a row that a copy with the 128-byte swizzle takes
constexpr int kDepth = kSwizzled;  // of a stage, along K
constexpr int kPanel = kSwizzled, kPanels = kColumns / kPanel;
constexpr int kCluster = 2;
constexpr int kStages = 4, kSlots = 4;  // all that fits
constexpr int kGroup = 128;             // threads of a warpgroup
constexpr int kGroupWarps = kGroup / kWarp;
constexpr int kProductThreads = 3 * kGroup;
constexpr int kHalfTile = 64, kHalves = kRows / kHalfTile;  // rows of one product
// 64 K registers for 3 warpgroups.
constexpr int kCopyRegisters = 24, kProductRegisters = 240;
// A turn to multiply; the hardware's barrier 0 is __syncthreads.
constexpr int kFirstTurn = 1;

struct Shared {
  Number a[kStages][kRows * kDepth];
  Number b[kStages][kColumns * kDepth];
  Number slots[kSlots][kRows * kPanel];
  Barrier loaded[kStages], used[kStages];  // the latter by both blocks
  Barrier open[kSlots], written[kSlots];
};
constexpr int kStageBytes = (kRows + kColumns) * kDepth * sizeof(Number);
constexpr int kPanelBytes = kRows * kPanel * sizeof(Number);
// A slot is opened only after the panel kSlots - 1 before was written. With more slots than a tile
// has panels, whoever waits for one thus knows that its phase before last has ended, as it must: a
// barrier tells phases apart by parity alone.
static_assert(kSlots > kPanels);

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
__device__ inline Corner corner(const Tiles& tiles, int tile) {
  const int block = static_cast<int>(block_of_cluster());
  return {(tile / tiles.columns * kCluster + block) * kRows, tile % tiles.columns * kColumns};
}

// Loads what the tiles of this block multiply; of B only this block's share, for the whole cluster.
template <bool n_major>
__device__ void load_factors(Shared& shared, const Maps& maps, const Tiles& tiles) {
  const int block = static_cast<int>(block_of_cluster());
  constexpr std::uint16_t all = (1 << kCluster) - 1;
  int stage = 0, phase = 0;
  for (int tile = first_tile(); tile < tiles.count; tile += clusters()) {
    const auto [row, column] = corner(tiles, tile);
#pragma unroll 1
    for (int step = 0; step < tiles.steps; ++step) {
      wait(shared.used[stage], phase ^ 1);
      auto& loaded = shared.loaded[stage];
      arrive_and_expect(loaded, kStageBytes);
      const int k = step * kDepth;
      load_tile(shared.a[stage], maps.a, k, row, loaded);
      if constexpr (n_major) {
        constexpr int share = kDepth / kCluster;
#pragma unroll
        for (int chunk = 0; chunk < kColumns / kSwizzled; ++chunk) {
          load_tile(shared.b[stage] + (chunk * kDepth + block * share) * kSwizzled, maps.b,
                    column + chunk * kSwizzled, k + block * share, loaded, all);
        }
      } else {
        constexpr int share = kColumns / kCluster;
        load_tile(shared.b[stage] + block * share * kDepth, maps.b, k, column + block * share,
                  loaded, all);
      }
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
  }
}

// Opens slots to the warpgroups that multiply, with what their epilogue reads already there, and
// stores what they leave in them.
template <bool reads_panel>
__device__ void move_panels(Shared& shared, const Maps& maps, const Tiles& tiles) {
  const int own_tiles = (tiles.count - first_tile() + clusters() - 1) / clusters();
  const int panels = own_tiles * kPanels;
  const auto corner_of = [&](int panel) {
    auto at = corner(tiles, first_tile() + panel / kPanels * clusters());
    at.column += panel % kPanels * kPanel;
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

struct TileSums {
  Sums half[kHalves];
};

// The sums of this warpgroup's tile; `first_stage` counts from the start of the kernel.
template <bool n_major>
__device__ void multiply_tile(Shared& shared, int first_stage, int steps, TileSums& sums) {
  int stage = first_stage % kStages, phase = first_stage / kStages % 2;
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
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
}

// The row that a lane names to load_matrices and store_matrices for its warp's 16 rows of columns
// 8·group to 8·group + 15 of a panel. The swizzle permutes the 8 groups of a row by its number.
__device__ inline Number* matrix_row(Number* slot, int half, int group) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kGroupWarps;
  const int row = half * kHalfTile + warp * 16 + lane % 16;
  return slot + row * kPanel + ((group + lane / 16) ^ (row % 8)) * 8;
}

template <typename Epilogue>
__device__ void multiply_and_finish(Shared& shared, const Tiles& tiles, Epilogue epilogue,
                                    uint2* all_signs) {
  const int group = threadIdx.x / kGroup - 1, other = 1 - group;
  const int thread = threadIdx.x % kGroup, lane = threadIdx.x % kWarp;
  constexpr bool backward = Epilogue::reads_panel;
  if (group == 1) arrive_named(kFirstTurn, 2 * kGroup);
  TileSums sums;
  for (int i = group;; i += 2) {
    const int tile = first_tile() + i * clusters();
    if (tile >= tiles.count) break;
    // Of the tile's panels, 32 bits of each half.
    const auto block = static_cast<int>(block_of_cluster());
    uint2* const tile_signs =
        all_signs == nullptr
            ? nullptr
            : all_signs + std::int64_t{tile * kCluster + block} * kPanels * kGroup + thread;

    sync_named(kFirstTurn + group, 2 * kGroup);
    multiply_tile<Epilogue::n_major>(shared, i * tiles.steps, tiles.steps, sums);
    arrive_named(kFirstTurn + other, 2 * kGroup);
    uint2 signs[kPanels] = {};
    if constexpr (backward) {
#pragma unroll
      for (int p = 0; p < kPanels; ++p) signs[p] = tile_signs[p * kGroup];
    }
    wait_products<0>();
    if (lane < kCluster)
      arrive_at(shared.used[(i * tiles.steps + tiles.steps - 1) % kStages], lane);
#pragma unroll
    for (auto& half : sums.half) half.settle();

#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
      const int panel = i * kPanels + p, slot = panel % kSlots;
      wait(shared.open[slot], panel / kSlots % 2);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        unsigned& half_signs = half == 0 ? signs[p].x : signs[p].y;
#pragma unroll
        for (int g = 0; g < kPanel / 8; g += 2) {
          Number* const row = matrix_row(shared.slots[slot], half, g);
          unsigned words[4];
          if constexpr (backward) load_matrices(row, words);
          epilogue(sums.half[half].of + (p * kPanel / 8 + g) * 4, words, half_signs);
          store_matrices(row, words);
        }
      }
      fence_shared_writes();
      __syncwarp();
      if (lane == 0) arrive(shared.written[slot]);
      if constexpr (!backward) {
        if (tile_signs != nullptr) tile_signs[p * kGroup] = signs[p];
      }
    }
  }
}

template <typename Epilogue>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kProductThreads, 1)
    product_kernel(const __grid_constant__ Maps maps, Tiles tiles, Epilogue epilogue,
                   uint2* signs) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
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
    multiply_and_finish(shared, tiles, epilogue, signs);
  }
  // Until both blocks are here, either may still write to the other's shared memory.
  __syncwarp();
  sync_cluster();
}

}  // namespace tg::cuda::hopper
