#pragma once
// Where the host of one rank waits for its device, and so perhaps for other ranks.
#include "comm/communicator.h"
#include "device/gpu.h"

namespace tg {

// For a scope in which work is launched: on a GPU the host waits for other ranks where the queue of
// launches is full of their work. Null: it never does.
inline PeerWatch* watch_of_launches(Communicator& communicator, at::Device device) {
  return device.is_cuda() ? communicator.watch() : nullptr;
}

inline void wait_for_device(Communicator& communicator, at::Device device) {
  const PeerWatch::Scope waiting(communicator.watch());
  if (device.is_cuda()) wait_for_gpu();
}

}  // namespace tg
