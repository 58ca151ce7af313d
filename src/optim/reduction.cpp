#include "optim/reduction.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/is_in.h"
#include "optim/gradient_norm.h"
#include "optim/shard.h"

namespace tg {

namespace {

at::Tensor norm_of(const std::vector<at::Tensor>& tensors) {
  return global_norm(tensors).to(at::kFloat);
}

at::Tensor squared_norm(const std::vector<at::Tensor>& tensors, at::Device device) {
  if (tensors.empty()) return at::zeros({}, at::TensorOptions(device).dtype(at::kFloat));
  return norm_of(tensors).square();
}

}  // namespace

Reduction::Reduction(const ParameterTable& table, Communicator& communicator,
                     at::ScalarType matrices)
    : communicator_(communicator) {
  for (const auto& row : table.rows()) {
    switch (row.reduction()) {
      case GradientReduction::reduce_scatter: {
        const auto own = row.value.scalar_type();
        const bool bank = row.update.by_matrix();
        const bool head = row.update.lr == Update::head.lr && own == at::kFloat;
        sharded_.push_back({.row = &row,
                            .dtype = bank || head ? matrices : own,
                            .step_dtype = bank ? matrices : own});
        break;
      }
      case GradientReduction::all_reduce:
        replicated_.push_back(&row);
        break;
      case GradientReduction::none:
        unreduced_.push_back(&row);
        break;
    }
  }
  std::ranges::stable_sort(sharded_, std::ranges::greater(),
                           [](const Sharded& sharded) { return sharded.row->value.numel(); });
}

at::Tensor Reduction::taken(const Parameter& row) const {
  return is_in(left_out_, &row) ? at::Tensor() : row.value.grad();
}

std::vector<at::Tensor> Reduction::replicated() const {
  std::vector<at::Tensor> gradients;
  for (const auto* row : replicated_) {
    if (const auto gradient = taken(*row); gradient.defined()) gradients.push_back(gradient);
  }
  return gradients;
}

void Reduction::start(Sharded& sharded) {
  sharded.mine.reset();
  const auto gradient = taken(*sharded.row);
  if (!gradient.defined()) return;
  const auto chunks = as_chunks(gradient, sharded.row->update);
  const auto world = communicator_.world_size();
  if (world == 1) {
    sharded.mine = chunks.to(sharded.step_dtype);
    return;
  }
  const auto [first, count, per_rank] = chunks_of_rank(chunks.size(0), communicator_);
  if (chunks.scalar_type() == sharded.dtype && per_rank * world == chunks.size(0)) {
    sharded.mine = chunks.narrow(0, first, count);
    sharded.pending = communicator_.reduce_scatter(sharded.mine, chunks);
    return;
  }
  if (!sharded.padded.defined()) {
    sharded.padded = empty_chunks(chunks, per_rank * world, sharded.dtype).zero_();
    sharded.reduced = empty_chunks(chunks, per_rank, sharded.dtype);
  }
  sharded.mine = sharded.reduced.narrow(0, 0, count);
  sharded.padded.narrow(0, 0, chunks.size(0)).copy_(chunks);
  sharded.pending = communicator_.reduce_scatter(sharded.reduced, sharded.padded);
}

at::Tensor Reduction::pack(const at::Tensor& metrics) const {
  std::vector<at::Tensor> parts{metrics};
  for (const auto& gradient : replicated()) parts.push_back(gradient.flatten().to(at::kFloat));
  return at::cat(parts);
}

void Reduction::unpack(const at::Tensor& packed, const at::Tensor& metrics) {
  // One foreach kernel per dtype.
  std::map<at::ScalarType, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> copies;
  std::int64_t at = 0;
  const auto take = [&](const at::Tensor& to) {
    auto& [targets, sources] = copies[to.scalar_type()];
    targets.push_back(to);
    sources.push_back(packed.narrow(0, at, to.numel()).view(to.sizes()));
    at += to.numel();
  };
  take(metrics);
  for (const auto& gradient : replicated()) take(gradient);
  for (const auto& [dtype, pair] : copies) at::_foreach_copy_(pair.first, pair.second);
}

void Reduction::reduce(const at::Tensor& metrics) {
  const at::NoGradGuard no_grad;
  for (auto& sharded : sharded_) start(sharded);
  if (communicator_.world_size() == 1) return;
  const auto packed = pack(metrics);
  communicator_.sum(packed).wait();
  unpack(packed, metrics);
  for (auto& sharded : sharded_) {
    sharded.pending.wait();
    if (sharded.mine.defined()) sharded.mine = sharded.mine.to(sharded.step_dtype);
  }
}

at::Tensor Reduction::gradient(const Parameter& row) const {
  for (const auto& sharded : sharded_) {
    if (sharded.row == &row) return sharded.mine;
  }
  return row.value.grad();
}

at::Tensor Reduction::norm() {
  const at::NoGradGuard no_grad;
  const auto whole = replicated();
  std::vector<at::Tensor> mine;
  for (const auto& sharded : sharded_) {
    if (sharded.mine.defined() && sharded.mine.numel() > 0) mine.push_back(sharded.mine);
  }
  if (communicator_.world_size() == 1 || sharded_.empty()) {
    mine.insert(mine.end(), whole.begin(), whole.end());
    return norm_of(mine);
  }
  const auto device = sharded_.front().row->value.device();
  const auto squares = squared_norm(mine, device);
  communicator_.sum(squares).wait();
  return (squares + squared_norm(whole, device)).sqrt();
}

void Reduction::drop_shards() {
  if (communicator_.world_size() > 1) return;
  for (auto& sharded : sharded_) sharded.mine.reset();
}

void Reduction::scale_all_but_matrices(const at::Tensor& factor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> scaled;
  const auto add = [&](const Parameter& row, const at::Tensor& gradient) {
    if (gradient.defined() && !row.update.by_matrix()) scaled.push_back(gradient);
  };
  for (const auto* row : replicated_) add(*row, taken(*row));
  for (const auto& sharded : sharded_) add(*sharded.row, sharded.mine);
  if (!scaled.empty()) at::_foreach_mul_(scaled, factor);
}

std::vector<at::Tensor> Reduction::local_gradients() const {
  std::vector<at::Tensor> all;
  const auto add = [&](const Parameter& row) {
    if (const auto gradient = taken(row); gradient.defined()) all.push_back(gradient);
  };
  for (const auto& sharded : sharded_) add(*sharded.row);
  for (const auto* row : replicated_) add(*row);
  for (const auto* row : unreduced_) add(*row);
  return all;
}

}  // namespace tg
