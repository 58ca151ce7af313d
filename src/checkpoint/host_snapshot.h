#pragma once
// A copy of a run's state in host memory, taken while training continues.
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <map>
#include <optional>
#include <string>

#include "checkpoint/saved_state.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// This rank's part of a state: its sharded tensors, its parts of sums, some of the replicated
// tensors (each is in one rank's part), and rank 0's scalars, as tensors []. The parts of all ranks
// hold the whole state, whatever the number of ranks that reads them.
class HostSnapshot {
 public:
  HostSnapshot(at::Device device, int rank, int world_size);

  // Copies the tensors' values as of the work queued on the current stream. On a GPU the copies go
  // to pinned memory on a separate stream; neither the host nor the current stream waits, so later
  // writes to the tensors must wait for copied(). The first call allocates the memory, later calls
  // reuse it.
  void copy_tensors(SavedState& state);
  // Copies the present values of the scalars.
  void copy_scalars(SavedState& state);

  // Event at the end of the copies.
  const c10::Event& copied() const { return copied_; }
  // Waits for the copies. Returns this rank's part, valid until the next copy.
  const NamedTensors& wait();

 private:
  at::Device device_;
  int rank_, world_size_;
  std::map<std::string, at::Tensor> buffers_;  // by the tensor's name
  NamedTensors part_;
  std::size_t tensors_ = 0;            // number of tensors in part_; scalars follow
  std::optional<c10::Stream> stream_;  // copy stream; on a GPU only
  c10::Event copied_;
};

}  // namespace tg
