#pragma once
#include <string>

#include "config/launch.h"

namespace tg {

// Physical cores, as cores_of() counts them.
struct Cores {
  int own;   // cores that this rank may run on
  int host;  // cores that the ranks of this machine have in common
};
Cores find_cores(const LaunchInfo& launch);

// Returns an equal fraction of the cores for each rank, at most its own and at least one. With a
// GPU at most 4: the CPU then only draws the initial weights.
int threads_of_rank(const Cores& cores, int local_size, bool gpu);

// Sets LibTorch's number of threads to threads_of_rank(), unless OMP_NUM_THREADS or MKL_NUM_THREADS
// is set, and makes the first call of MKL's vector math on one thread. Call before LibTorch
// computes anything. Returns text for the log: "8 of 16 cores, 2 ranks on this machine".
std::string set_threads(const LaunchInfo& launch, bool gpu);

}  // namespace tg
