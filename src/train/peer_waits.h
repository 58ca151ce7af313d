#pragma once
// Scopes in which a rank's host waits for its device, and thus possibly for other ranks.
#include "comm/communicator.h"
#include "device/gpu.h"

namespace tg {

// The watch for a scope that launches GPU work: the host blocks if the launch queue is full of work
// that waits for other ranks. Null on a CPU, where it never does.
inline PeerWatch* watch_of_launches(Communicator& communicator, at::Device device) {
  return device.is_cuda() ? communicator.watch() : nullptr;
}

inline void wait_for_device(Communicator& communicator, at::Device device) {
  const PeerWatch::Scope waiting(communicator.watch());
  if (device.is_cuda()) wait_for_gpu();
}

}  // namespace tg
