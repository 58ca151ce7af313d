#include <cassert>
#include <cstdlib>

#include "comm/backend.h"

namespace tg {

Backend make_nccl(const Rendezvous&, const LaunchInfo&, std::chrono::milliseconds) {
  assert(!"a program without CUDA has no GPU to choose");
  std::abort();
}

std::string dump_nccl_flight_record() {
  return {};
}

}  // namespace tg
