#pragma once
#include <string>

#include "config/launch.h"

namespace tg {

// Physical cores, as cores_of counts them.
struct Cores {
  int own;   // that this rank may run on
  int host;  // that the ranks of this machine share
};
Cores find_cores(const LaunchInfo& launch);

// A rank's equal share of the cores, at most its own and at least one. On a GPU at most 4: the CPU
// then only draws the initial weights.
int threads_of_rank(const Cores& cores, int local_size, bool gpu);

// Sets LibTorch's number of threads to that, unless OMP_NUM_THREADS or MKL_NUM_THREADS is set, and
// makes the first call of its vector math alone. To be called before it computes anything. → text
// for the log, "8 of 16 cores, 2 ranks on this machine".
std::string set_threads(const LaunchInfo& launch, bool gpu);

}  // namespace tg
