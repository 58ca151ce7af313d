#include "optim/group_optimizer.h"

namespace tg {

namespace {

std::vector<Shard> shards_of(const ParameterRows& rows, const Communicator& communicator) {
  std::vector<Shard> shards;
  for (const auto* row : rows) shards.push_back(shard_of(*row, communicator));
  return shards;
}

}  // namespace

GroupOptimizer::GroupOptimizer(ParameterRows rows, Communicator& communicator)
    : rows_(std::move(rows)),
      shards_(shards_of(rows_, communicator)),
      communicator_(communicator) {}

NamedTensors GroupOptimizer::shard_state(bool sharded) const {
  const auto kinds = state();
  NamedTensors named;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].first_chunk.has_value() != sharded) continue;
    for (const auto& kind : kinds) {
      if (!kind.of_shard) continue;
      for (const auto& [name, value] : shards_[i].named(kind.values[i]))
        named.emplace_back(kind.name + "." + name, value);
    }
  }
  return named;
}

NamedTensors GroupOptimizer::replicated_state() const {
  auto named = shard_state(/*sharded=*/false);
  for (const auto& kind : state()) {
    if (kind.of_shard) continue;
    for (std::size_t i = 0; i < shards_.size(); ++i)
      named.emplace_back(kind.name + "." + shards_[i].name, kind.values[i]);
  }
  return named;
}

}  // namespace tg
