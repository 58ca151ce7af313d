#include "checkpoint/host_snapshot.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "device/event.h"

namespace tg {

namespace {

// Calls `on_tensor` for every tensor of this rank's part. Replicated tensors are assigned in the
// order of the visit, each to the rank with the fewest bytes so far.
class PartVisitor final : public StateVisitor {
 public:
  using OnTensor = std::function<void(const std::string&, const at::Tensor&)>;
  PartVisitor(int rank, int world_size, OnTensor on_tensor)
      : rank_(rank),
        assigned_bytes_(static_cast<std::size_t>(world_size)),
        on_tensor_(std::move(on_tensor)) {}

  void operator()(const std::string&, std::int64_t&) override {}
  void operator()(const std::string&, double&) override {}
  void operator()(const std::string&, bool&) override {}
  void operator()(const std::string& name, const at::Tensor& value, Placement placement) override {
    switch (placement) {
      case Placement::replicated:
        if (assign(value.nbytes()) == rank_) on_tensor_(name, value);
        break;
      case Placement::sharded:
        on_tensor_(name, value);
        break;
      case Placement::summed:
        on_tensor_(part_of_rank(name, rank_), value);
        break;
    }
  }

 private:
  int assign(std::size_t bytes) {
    const auto least = std::min_element(assigned_bytes_.begin(), assigned_bytes_.end());
    *least += bytes;
    return static_cast<int>(least - assigned_bytes_.begin());
  }

  int rank_;
  std::vector<std::size_t> assigned_bytes_;
  OnTensor on_tensor_;
};

at::Tensor as_tensor(StateScalar value) {
  return std::visit(
      [](auto number) {
        return at::scalar_tensor(number, c10::CppTypeToScalarType<decltype(number)>::value);
      },
      value);
}

}  // namespace

HostSnapshot::HostSnapshot(at::Device device, int rank, int world_size)
    : device_(device), rank_(rank), world_size_(world_size), copied_(device.type()) {
  if (device.is_cuda()) {
    stream_ = stream_from_pool(device);
  }
}

at::Tensor HostSnapshot::buffer_for(const std::string& name, const at::Tensor& value) {
  auto& buffer = buffers_[name];
  if (!buffer.defined() || buffer.sizes() != value.sizes()) {
    buffer =
        at::empty(value.sizes(), value.options().device(at::kCPU).pinned_memory(device_.is_cuda()));
  }
  return buffer;
}

void HostSnapshot::copy_tensors(SavedState& state) {
  const at::NoGradGuard no_grad;
  part_.clear();
  PartVisitor visitor(rank_, world_size_, [&](const std::string& name, const at::Tensor& value) {
    part_.emplace_back(name, buffer_for(name, value)).second.copy_(value, /*non_blocking=*/true);
  });
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
    part_.emplace_back(name, as_tensor(value));
  });
}

const NamedTensors& HostSnapshot::wait() {
  copied_.synchronize();  // returns at once if no copy was recorded
  return part_;
}

}  // namespace tg
