#include "optim/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tg {

namespace {

// Divisible by 2, 3, 4, 6, 8, 12, 16, 24 and 48 ranks, which then need no padded copies.
constexpr std::int64_t kChunks = 48;

}  // namespace

ChunkRange chunks_of_rank(std::int64_t n, const Communicator& communicator) {
  const auto per_rank = (n + communicator.world_size() - 1) / communicator.world_size();
  const auto first = std::min(n, communicator.rank() * per_rank);
  return {.first = first, .count = std::min(per_rank, n - first), .per_rank = per_rank};
}

at::Tensor as_chunks(const at::Tensor& tensor, const Update& update) {
  if (!update.by_matrix()) return tensor.view({std::gcd(tensor.numel(), kChunks), -1});
  return tensor.dim() == 2 ? tensor.unsqueeze(0) : tensor;
}

at::Tensor empty_chunks(const at::Tensor& like, std::int64_t n, at::ScalarType dtype) {
  auto sizes = like.sizes().vec();
  sizes[0] = n;
  return at::empty(sizes, like.options().dtype(dtype));
}

NamedTensors Shard::named(const at::Tensor& state) const {
  if (!first_chunk) return {{name, state}};
  NamedTensors chunks;
  for (std::int64_t i = 0; i < state.size(0); ++i)
    chunks.emplace_back(fmt::format("{}.{}", name, *first_chunk + i), state[i]);
  return chunks;
}

Shard shard_of(const at::Tensor& whole, const Parameter& row, const Communicator& communicator) {
  if (row.reduction() != GradientReduction::reduce_scatter)
    return {row.update.by_matrix() ? row.name + ".0" : row.name, whole};
  const auto chunks = as_chunks(whole, row.update);
  const auto [first, count, per_rank] = chunks_of_rank(chunks.size(0), communicator);
  return {row.name, chunks.narrow(0, first, count), first};
}

Pending gather_chunks(const at::Tensor& all, const at::Tensor& mine, Communicator& communicator) {
  const auto per_rank = all.size(0) / communicator.world_size();
  const auto own = all.narrow(0, communicator.rank() * per_rank, per_rank);
  own.narrow(0, 0, mine.size(0)).copy_(mine);
  return communicator.world_size() > 1 ? communicator.all_gather(all, own) : Pending();
}

at::Tensor unsharded(const at::Tensor& of_shard, const Parameter& row, Communicator& communicator) {
  if (row.reduction() != GradientReduction::reduce_scatter) return of_shard;
  const auto n = as_chunks(row.value.detach(), row.update).size(0);
  const auto [first, count, per_rank] = chunks_of_rank(n, communicator);
  const auto padded =
      empty_chunks(of_shard, per_rank * communicator.world_size(), of_shard.scalar_type());
  gather_chunks(padded, of_shard, communicator).wait();
  return padded.narrow(0, 0, n).view(row.value.sizes());
}

Completion gather_parameter(const Parameter& row, Communicator& communicator) {
  const auto world = communicator.world_size();
  if (world == 1 || row.reduction() != GradientReduction::reduce_scatter) return [] {};
  const at::NoGradGuard no_grad;
  const auto chunks = as_chunks(row.value.detach(), row.update);
  const auto [first, count, per_rank] = chunks_of_rank(chunks.size(0), communicator);
  const auto own = chunks.narrow(0, first, count);
  if (per_rank * world == chunks.size(0))
    return [pending = communicator.all_gather(chunks, own)]() mutable { pending.wait(); };
  auto padded = empty_chunks(chunks, per_rank * world, chunks.scalar_type());
  auto pending = gather_chunks(padded, own, communicator);
  return [chunks, padded = std::move(padded), pending = std::move(pending)]() mutable {
    pending.wait();
    const at::NoGradGuard no_grad_of_copy;
    chunks.copy_(padded.narrow(0, 0, chunks.size(0)));
    padded.reset();
  };
}

}  // namespace tg
