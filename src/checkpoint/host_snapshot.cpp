#include "checkpoint/host_snapshot.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "device/event.h"

namespace tg {

HostSnapshot::HostSnapshot(at::Device device, int rank, int world_size)
    : device_(device), rank_(rank), world_size_(world_size), copied_(device.type()) {
  if (device.is_cuda()) stream_ = stream_from_pool(device);
}

void HostSnapshot::copy_tensors(SavedState& state) {
  const at::NoGradGuard no_grad;
  part_.clear();
  // Each replicated tensor goes to the rank with the fewest bytes so far, in the order of the
  // visit.
  std::vector<std::size_t> assigned_bytes(static_cast<std::size_t>(world_size_));
  StateReader visitor;
  visitor.tensor = [&](const std::string& name, const at::Tensor& value, Placement placement) {
    if (placement == Placement::replicated) {
      const auto least = std::ranges::min_element(assigned_bytes);
      *least += value.nbytes();
      if (least - assigned_bytes.begin() != rank_) return;
    }
    const auto own = placement == Placement::summed ? part_of_rank(name, rank_) : name;
    auto& buffer = buffers_[own];
    if (!buffer.defined() || buffer.sizes() != value.sizes())
      buffer = at::empty(value.sizes(),
                         value.options().device(at::kCPU).pinned_memory(device_.is_cuda()));
    part_.emplace_back(own, buffer).second.copy_(value, /*non_blocking=*/true);
  };
  if (stream_) {
    order_streams(compute_stream(device_), *stream_);
    const c10::StreamGuard on_stream(*stream_);
    state.visit(visitor);
    copied_.record(*stream_);
  } else {
    state.visit(visitor);
  }
  tensors_ = part_.size();
}

void HostSnapshot::copy_scalars(SavedState& state) {
  part_.resize(tensors_);
  if (rank_ != 0) return;
  state.for_each_scalar([&](const std::string& name, StateScalar value) {
    const auto add = [&](auto number) {
      part_.emplace_back(
          name, at::scalar_tensor(number, c10::CppTypeToScalarType<decltype(number)>::value));
    };
    std::visit(add, value);
  });
}

const NamedTensors& HostSnapshot::wait() {
  copied_.synchronize();  // returns at once if no copy was recorded
  return part_;
}

}  // namespace tg
