#include "optim/group_optimizer.h"

#include <algorithm>
#include <cassert>

#include "model/tied_rows.h"

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

std::size_t GroupOptimizer::index_of(const Parameter& row) const {
  const auto found = std::ranges::find(rows_, &row);
  assert(found != rows_.end());
  return static_cast<std::size_t>(found - rows_.begin());
}

void GroupOptimizer::copy_state(const Parameter& row, const GroupOptimizer& group,
                                const Parameter& from) {
  const at::NoGradGuard no_grad;
  const auto into = state(), other = group.state();
  assert(row.update.rule == from.update.rule);
  const auto i = index_of(row), j = group.index_of(from);
  for (std::size_t kind = 0; kind < into.size(); ++kind) {
    const auto &value = into[kind].values[i], &source = other[kind].values[j];
    if (!into[kind].of_shard) {
      value.copy_(source);
      continue;
    }
    const auto whole = as_tied(unsharded(source, from, communicator_), row.value.sizes());
    value.copy_(shard_of(whole.contiguous(), row, communicator_).value);
  }
}

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
