#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "comm/backend.h"

namespace tg {

Backend make_nccl(const Rendezvous& rendezvous, const LaunchInfo& launch,
                  std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(rendezvous.store, launch.rank,
                                                     launch.world_size, options);
}

std::string dump_nccl_flight_record() {
  return c10d::dump_nccl_trace(/*includeCollectives=*/true, /*includeStackTraces=*/false,
                               /*onlyActive=*/false);
}

}  // namespace tg
