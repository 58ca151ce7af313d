#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "model/parameters.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Assignment of n chunks to W ranks: ⌈n/W⌉ each, in order; the last ranks may have fewer or none.
struct ChunkRange {
  std::int64_t first, count;  // of this rank
  std::int64_t per_rank;      // ⌈n/W⌉, the count per rank in collectives
};
ChunkRange chunks_of_rank(std::int64_t n, const Communicator& communicator);

// View of a sharded parameter, or of its gradient, as chunks [n, …] that are assigned to ranks: the
// matrices of a bank, or equal slices of a parameter that is updated elementwise.
at::Tensor as_chunks(const at::Tensor& tensor, const Update& update);
// n uninitialised chunks, shaped like the chunks of `like`.
at::Tensor empty_chunks(const at::Tensor& like, std::int64_t n, at::ScalarType dtype);

// What this rank updates of a parameter: its shard, or all of a replicated one (optimizer state
// sharding: ZeRO stage 1, Rajbhandari et al. 2020).
struct Shard {
  std::string name;  // of the parameter; a single matrix is named like the first of a bank, NAME.0
  at::Tensor value;  // [count, …] if sharded; shares the parameter's storage, without gradient
  std::optional<std::int64_t> first_chunk{};  // nullopt if replicated

  // Names state of value's shape: NAME, or NAME.I for chunk I, independent of the number of ranks.
  NamedTensors named(const at::Tensor& state) const;
};
// The shard of `whole`, the parameter's value or a contiguous tensor of its shape.
Shard shard_of(const at::Tensor& whole, const Parameter& row, const Communicator& communicator);
inline Shard shard_of(const Parameter& row, const Communicator& communicator) {
  return shard_of(row.value.detach(), row, communicator);
}
// Copies this rank's chunks `mine` into `all` [W · per_rank, …] and starts the gather of all
// ranks'.
Pending gather_chunks(const at::Tensor& all, const at::Tensor& mine, Communicator& communicator);
// Gathers state shaped like the rank's shard into a tensor shaped like the parameter. Collective.
at::Tensor unsharded(const at::Tensor& of_shard, const Parameter& row, Communicator& communicator);

// Waits for collectives of an update and completes it, see Pending::wait(). Call it once.
using Completion = std::function<void()>;
// All-gathers the shards of a parameter, which all ranks have updated, into the whole parameter;
// does nothing if it is replicated. The parameter must not be read or written before the completion
// has run. Collective.
Completion gather_parameter(const Parameter& row, Communicator& communicator);

}  // namespace tg
