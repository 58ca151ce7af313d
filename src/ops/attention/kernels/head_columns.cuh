#pragma once
// Device code for kernels whose warps keep their heads and take tokens in turn.
#include <stdexcept>
#include <string>

#include "ops/attention/kernels/head_vectors.cuh"

namespace tg::cuda {

// Throws if `blocks` CTAs have fewer warps than these heads need, which would then be left out.
inline void require_warps(int blocks, int needed, const char* kernel) {
  if (blocks * kHeadWarps < needed)
    throw std::runtime_error(std::string(kernel) + ": more heads than warps on this GPU");
}

// A warp's work: the same `heads_per_warp` heads for all its tokens, so that addresses and per-head
// state stay in registers.
template <typename T, int lanes>
struct WarpWork {
  int head;  // of this lane; may be out of range
  int token, token_step;

  __device__ WarpWork(int heads, int tokens) {
    const HeadLane<T, lanes> lane;
    const int groups = (heads + lane.heads_per_warp - 1) / lane.heads_per_warp;
    token_step = num_grid_warps() / groups;
    head = grid_warp_index() % groups * lane.heads_per_warp + lane.head;
    token = grid_warp_index() < token_step * groups ? grid_warp_index() / groups : tokens;
  }
};

// A lane's pack of one head in every token, addressed with one multiply-add.
template <typename T>
class HeadColumn {
 public:
  __device__ HeadColumn(HeadVectors from, int head, int offset)
      : token_bytes_(static_cast<int>(from.token_stride * sizeof(T))),
        head_stride_(static_cast<int>(from.head_stride)) {
    if (from.data != nullptr)
      start_ = static_cast<const T*>(from.data) + head * from.head_stride + offset;
  }

  __device__ Pack<T> load(int token, bool in_bounds = true) const {
    return in_bounds && start_ != nullptr ? load_pack(pointer(token)) : Pack<T>{};
  }
  // Loads the pack of a later head.
  __device__ Pack<T> load_later_head(int token, int heads_later) const {
    return start_ != nullptr ? load_pack(pointer(token) + heads_later * head_stride_) : Pack<T>{};
  }

 private:
  __device__ const T* pointer(int token) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(start_) +
                                      std::int64_t{token} * token_bytes_);
  }

  const T* start_ = nullptr;
  int token_bytes_, head_stride_;
};

}  // namespace tg::cuda
