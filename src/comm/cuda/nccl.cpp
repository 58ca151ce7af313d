#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "comm/backend.h"

namespace tg {

Backend make_nccl(const Rendezvous& meeting, const LaunchInfo& launch,
                  std::chrono::milliseconds timeout) {
  // Off unless the user turns it on: multicast needs set-up that shared machines often lack.
  ::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
  // On one node nobody else needs to reach the sockets by which ranks greet each other.
  if (launch.one_node) ::setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(meeting.store, launch.rank, launch.world_size,
                                                     options);
}

std::string nccl_record() {
  return c10d::dump_nccl_trace(/*includeCollectives=*/true, /*includeStackTraces=*/false,
                               /*onlyActive=*/false);
}

}  // namespace tg
