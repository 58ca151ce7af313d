#pragma once
// c10d backends: the collectives of one communication library.
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/rendezvous.h"

namespace tg {

using Backend = c10::intrusive_ptr<c10d::Backend>;

// Collectives on CPU tensors over TCP. Binds GLOO_SOCKET_IFNAME's interface if set; otherwise the
// loopback address on one node, and on several the local address of the route to MASTER_ADDR.
Backend make_gloo(const Rendezvous& rendezvous, const LaunchInfo& launch,
                  std::chrono::milliseconds timeout);
// Collectives on tensors of the current GPU. Implemented in cuda/; no_cuda/ has a stub that is
// never called.
Backend make_nccl(const Rendezvous& rendezvous, const LaunchInfo& launch,
                  std::chrono::milliseconds timeout);

// Return dumps of the libraries' flight recorders, the last collectives, as pickles of plain Python
// values.
std::string dump_gloo_flight_record();
std::string dump_nccl_flight_record();

}  // namespace tg
