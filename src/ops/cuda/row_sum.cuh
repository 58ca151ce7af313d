#pragma once
// A sum over the threads that share a row: of a block, or of the blocks of a cluster.
#include "ops/cuda/device.cuh"

namespace tg::cuda {

constexpr int kMaxThreads = 1024;  // of a block

// Between the blocks of a cluster: numbers that are counted where they arrive. Its barrier would
// wait for every access under way, the next row's among them.
namespace cluster {

#if __CUDA_ARCH__ >= 900
__device__ inline unsigned address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
__device__ inline void sync() {
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
}
__device__ inline void prepare(std::uint64_t* arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(arrivals)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void expect(std::uint64_t* arrivals, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(arrivals)),
               "r"(bytes)
               : "memory");
}
// To the same place in the shared memory of the cluster's block `rank`.
__device__ inline void send(float value, float* to, std::uint64_t* arrivals, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 to, arrivals;\n"
      "mapa.shared::cluster.u32 to, %0, %3;\n"
      "mapa.shared::cluster.u32 arrivals, %1, %3;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [to], %2, [arrivals];\n"
      "}" ::"r"(address(to)),
      "r"(address(arrivals)), "r"(__float_as_uint(value)), "r"(rank)
      : "memory");
}
__device__ inline bool arrived(std::uint64_t* arrivals, int phase) {
  unsigned there;
  asm volatile(
      "{\n"
      ".reg .pred there;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 there, [%1], %2;\n"
      "selp.b32 %0, 1, 0, there;\n"
      "}"
      : "=r"(there)
      : "r"(address(arrivals)), "r"(phase)
      : "memory");
  return there != 0;
}
#else  // not launched there
__device__ inline void sync() {}
__device__ inline void prepare(std::uint64_t*) {}
__device__ inline void expect(std::uint64_t*, int) {}
__device__ inline void send(float, float*, std::uint64_t*, int) {}
__device__ inline bool arrived(std::uint64_t*, int) {
  return true;
}
#endif

}  // namespace cluster

// Over the threads of the kParts blocks that share a row; each has the result. Rows take turns on
// two sets of partial sums: whoever writes to one has had the other from every warp, and with it
// the word that the first has been read.
template <int kParts>
class RowSum {
 public:
  struct Shared {
    float partial[2][kParts * kMaxThreads / kWarp];
    std::uint64_t arrivals[2];
  };
  __device__ explicit RowSum(Shared& shared) : shared_(shared) {
    if constexpr (kParts > 1) {
      if (threadIdx.x < 2) cluster::prepare(&shared_.arrivals[threadIdx.x]);
      cluster::sync();
    }
  }
  __device__ float operator()(float value) {
    const int warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const int set = turn_ % 2, phase = turn_ / 2 % 2;
    ++turn_;
    value = warp_sum(value);
    float* const partial = shared_.partial[set];
    if constexpr (kParts == 1) {
      if (warps == 1) return value;
      if (lane == 0) partial[warp] = value;
      __syncthreads();
    } else {
      std::uint64_t* const arrivals = &shared_.arrivals[set];
      if (threadIdx.x == 0) cluster::expect(arrivals, kParts * warps * sizeof(float));
      if (lane < kParts)
        cluster::send(value, &partial[blockIdx.x % kParts * warps + warp], arrivals, lane);
      while (!cluster::arrived(arrivals, phase)) {
      }
    }
    value = 0;
    for (int i = lane; i < kParts * warps; i += kWarp) value += partial[i];
    return warp_sum(value);
  }

 private:
  Shared& shared_;
  unsigned turn_ = 0;
};

}  // namespace tg::cuda
