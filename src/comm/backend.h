#pragma once
// What PyTorch calls a backend: collectives over one kind of network.
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/rendezvous.h"

namespace tg {

using Backend = c10::intrusive_ptr<c10d::Backend>;

// Collectives on CPU tensors over TCP: on one node through the loopback address, else from the
// address by which MASTER_ADDR is reached, or GLOO_SOCKET_IFNAME's.
Backend make_gloo(const Rendezvous& meeting, const LaunchInfo& launch,
                  std::chrono::milliseconds timeout);
// Collectives on tensors of the current GPU. Implemented in cuda/, or in no_cuda/, where there is
// never a GPU.
Backend make_nccl(const Rendezvous& meeting, const LaunchInfo& launch,
                  std::chrono::milliseconds timeout);

// What their flight recorders know of the last collectives: a pickle of plain Python values.
std::string gloo_record();
std::string nccl_record();

}  // namespace tg
