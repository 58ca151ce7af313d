// Tests which orderings around a ring of shared-memory buffers compute-sanitizer's racecheck
// understands: a producer loads a buffer after every warp has signalled that it has read the
// previous contents, as in attention's backward pass and the GEMMs. Run it under `compute-sanitizer
// --tool racecheck --racecheck-report analysis`; docs/optimizations.md has the results. By PTX's
// memory model `lane_0` and `all_lanes` are ordered, and `lane_0_alone` is a race.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ops/gemm/hopper/ptx.cuh"

namespace {

using namespace tg::cuda::hopper;

constexpr int kWarp = 32, kConsumers = 2, kStages = 2, kTiles = 8, kFloats = 32;

enum class Load { bulk, tensor };
// Which threads arrive at the barrier that the producer waits for.
enum class Order {
  lane_0,       // one lane per warp, after a __syncwarp(): as in our kernels
  all_lanes,    // every thread
  lane_0_alone  // one lane per warp without __syncwarp(): wrong
};

template <Load load, Order order>
__global__ void ring(const __grid_constant__ CUtensorMap map, const float* from, float* sums) {
  __shared__ __align__(128) float buffers[kStages][kFloats];
  __shared__ Barrier full[kStages], empty[kStages];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(full[s], 1);
      mbarrier_init(empty[s], order == Order::all_lanes ? kConsumers * kWarp : kConsumers);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    if (threadIdx.x != 0) return;
    for (int tile = 0; tile < kTiles; ++tile) {
      const int stage = tile % kStages, parity = tile / kStages % 2;
      mbarrier_wait(empty[stage], parity ^ 1);
      mbarrier_arrive_expect_tx(full[stage], sizeof(buffers[stage]));
      if constexpr (load == Load::bulk)
        bulk_load(buffers[stage], from + tile * kFloats, sizeof(buffers[stage]), full[stage]);
      else
        tma_load(buffers[stage], map, 0, tile, full[stage]);
    }
    return;
  }
  float sum = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    const int stage = tile % kStages, parity = tile / kStages % 2;
    mbarrier_wait(full[stage], parity);
    sum += buffers[stage][lane];
    fence_proxy_async_shared();
    if constexpr (order == Order::lane_0) __syncwarp();
    if (order == Order::all_lanes || lane == 0) mbarrier_arrive(empty[stage]);
  }
  sums[threadIdx.x - kWarp] = sum;
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "ERROR %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

// A tensor map for [kTiles, kFloats], one row per box.
CUtensorMap rows_of(float* matrix) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
  CUtensorMap map;
  const cuuint64_t sizes[] = {kFloats, kTiles}, strides[] = {kFloats * sizeof(float)};
  const cuuint32_t box[] = {kFloats, 1}, steps[] = {1, 1};
  const auto status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, matrix, sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "a tensor's map");
  return map;
}

template <Load load, Order order>
void run(const CUtensorMap& map, const float* from, float* sums, const char* name) {
  std::vector<float> found(kConsumers * kWarp);
  ring<load, order><<<1, (1 + kConsumers) * kWarp>>>(map, from, sums);
  check(cudaGetLastError(), name);
  check(cudaMemcpy(found.data(), sums, found.size() * sizeof(float), cudaMemcpyDefault), name);
  bool right = true;  // whether the sum of a column of 0, 1, 2, … is right in both launches
  for (std::size_t i = 0; i < found.size(); ++i)
    right &=
        found[i] == kTiles * (kTiles - 1) / 2 * kFloats + kTiles * static_cast<float>(i % kWarp);
  std::printf("%-24s %s\n", name, right ? "sums are right" : "sums are WRONG");
  std::fflush(stdout);
  if (!right && order != Order::lane_0_alone) std::exit(1);
}

template <Load load>
void run_all(const CUtensorMap& map, const float* from, float* sums,
             const char* const (&names)[3]) {
  run<load, Order::lane_0>(map, from, sums, names[0]);
  run<load, Order::all_lanes>(map, from, sums, names[1]);
  run<load, Order::lane_0_alone>(map, from, sums, names[2]);
}

}  // namespace

int main() {
  int major = 0;  // compute capability
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
      major != 9) {
    std::puts("SKIPPED racecheck_orders: no Hopper GPU");
    return 77;
  }
  float *from = nullptr, *sums = nullptr;
  std::vector<float> numbers(kTiles * kFloats);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  check(cudaMalloc(&from, numbers.size() * sizeof(float)), "memory");
  check(cudaMalloc(&sums, kConsumers * kWarp * sizeof(float)), "memory");
  check(cudaMemcpy(from, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyDefault),
        "input");
  const auto map = rows_of(from);
  run_all<Load::bulk>(map, from, sums, {"bulk, lane 0", "bulk, all lanes", "bulk, lane 0 alone"});
  run_all<Load::tensor>(map, from, sums,
                        {"tensor, lane 0", "tensor, all lanes", "tensor, lane 0 alone"});
}
