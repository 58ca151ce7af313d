#include "process/threads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/cores.h"

namespace tg {

namespace {

// Four runs started at once on 16 cores take 1.3 times as long as one run with 4 threads each, and
// 5 to 10 times as long with 8: OpenMP's barriers then wait for threads that have no core. A single
// run starts 0.1 s later with 4.
constexpr int kMaxThreadsWithGpu = 4;

// MKL's vector functions select their kernels at a process's first call. If several threads make
// that call at once, one of them may compute its part of a tensor with too few digits: fp32 cosines
// were wrong by up to 2,535 units in the last place, in one of 200 processes with 16 threads. One
// element is computed by the calling thread alone.
void prepare_vector_math() {
  const auto x = at::ones({1});
  x.cos(), x.sin(), x.exp(), x.log(), x.tanh(), x.erf();
}

}  // namespace

Cores find_cores(const LaunchInfo& launch) {
  const int own = std::max(1, cores_of(0));
  // A launcher may bind each rank to its own cores; the launcher's mask has all of them.
  const int host = launch.local_size > 1 ? std::max(own, cores_of(::getppid())) : own;
  const int granted = cgroup_cores().value_or(host);
  return {std::min(own, granted), std::min(host, granted)};
}

int threads_of_rank(const Cores& cores, int local_size, bool gpu) {
  const int threads = std::clamp(cores.host / local_size, 1, cores.own);
  return gpu ? std::min(threads, kMaxThreadsWithGpu) : threads;
}

std::string set_threads(const LaunchInfo& launch, bool gpu) {
  prepare_vector_math();
  if (launch.chose_threads) return fmt::format("{} (environment)", at::get_num_threads());
  const auto cores = find_cores(launch);
  at::set_num_threads(threads_of_rank(cores, launch.local_size, gpu));
  return fmt::format("{} of {} cores, {} rank{} on this machine", at::get_num_threads(), cores.host,
                     launch.local_size, launch.local_size == 1 ? "" : "s");
}

}  // namespace tg
