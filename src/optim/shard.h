#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "comm/communicator.h"
#include "model/parameters.h"
#include "weights/named_tensors.h"

namespace tg {

// How n chunks are dealt to W ranks: ⌈n/W⌉ to each, in order; the last ranks may have fewer or
// none.
struct ChunkRange {
  std::int64_t first, count;  // this rank's
  std::int64_t per_rank;      // ⌈n/W⌉, which collectives move of every rank
};
ChunkRange chunks_of_rank(std::int64_t n, const Communicator& communicator);

// A sharded parameter that is updated so, or its gradient, as the chunks that are dealt to ranks
// [n, …], sharing storage: a bank's matrices; of what AdamW steps, equal parts.
at::Tensor as_chunks(const at::Tensor& tensor, const Update& update);
// n uninitialised chunks, each of the shape of `like`'s.
at::Tensor empty_chunks(const at::Tensor& like, std::int64_t n, at::ScalarType dtype);

// What this rank updates of a parameter: its shard, or the whole of what is replicated (optimizer
// states in shards: ZeRO stage 1, Rajbhandari et al. 2020).
struct Shard {
  std::string name;
  at::Tensor value;  // [count, …] of a sharded parameter; shares its storage, without gradient
  std::optional<std::int64_t> first_chunk{};  // none of what is replicated

  // Names state of value's shape: NAME, or NAME.I for each chunk, on any number of ranks.
  NamedTensors named(const at::Tensor& state) const;
};
Shard shard_of(const Parameter& row, const Communicator& communicator);

// The all-gather of a parameter's shards, which every rank has updated, into the whole; at once
// where it is replicated. Collective.
class ParameterGather {
 public:
  ParameterGather(const Parameter& row, Communicator& communicator);
  // As Pending::wait(). The parameter must not be read or written before.
  void wait();

 private:
  at::Tensor chunks_, padded_;  // undefined where the shards are gathered in place
  Pending pending_;
};

}  // namespace tg
