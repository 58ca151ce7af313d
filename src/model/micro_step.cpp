#include "model/micro_step.h"

#include <cassert>
#include <utility>

namespace tg {

MicroStep::MicroStep(Gpt& model, const ForwardMode& mode, at::Device device, bool graphs)
    : passes_("the step",
              {[this, &model, mode] {
                 auto part_mode = mode;
                 const auto parts = static_cast<double>(size_.parts),
                            joined = static_cast<double>(size_.joined);
                 part_mode.scale = part_mode.scale / parts * joined;
                 const auto tokens = static_cast<double>(batch_.inputs.numel()) * parts / joined;
                 const double unit = model.plan().head.sums_over_tokens ? tokens : 1;
                 part_mode.scale *= unit;
                 part_mode.mean_nll = loss_;
                 autograd_loss_ =
                     model.loss(batch_.inputs, batch_.targets, part_mode, documents_of(batch_));
                 const auto loss = autograd_loss_.detach();
                 auto& total = mode.further ? objective_ : loss_;
                 if (!total.defined()) total = at::empty_like(loss);
                 total.copy_(unit == 1 ? loss : loss / unit);
                 if (mode.further && unit != 1) loss_.div_(unit);
               },
               [this] {
                 autograd_loss_.backward();
                 autograd_loss_.reset();
               }},
              device, graphs) {
  if (mode.further) loss_ = at::empty({}, at::TensorOptions(device).dtype(at::kFloat));
}

void MicroStep::set_size(const PassSize& size) {
  assert(size.parts == 1 || size.joined == 1);
  invalidate();
  batch_ = {};
  size_ = size;
  taken_ = 0;
  starts_.clear();
}

bool MicroStep::join(const DeviceBatch& batch) {
  if (size_.joined == 1) return true;
  require_longest_segment(batch);
  const auto rows = batch.inputs.size(0);
  const auto copy = [&](at::Tensor& to, const at::Tensor& from) {
    if (!to.defined()) to = at::empty({size_.joined * rows, from.size(1)}, from.options());
    to.narrow(0, taken_ * rows, rows).copy_(from);
  };
  copy(batch_.inputs, batch.inputs);
  copy(batch_.targets, batch.targets);
  if (batch.segments.defined()) join_segments(batch);
  taken_ = (taken_ + 1) % size_.joined;
  return taken_ == 0;
}

// The empty segments behind a micro-batch's own stay between these and the next one's.
void MicroStep::join_segments(const DeviceBatch& batch) {
  const auto& own = batch.segments;
  const auto tokens = batch.inputs.numel();
  starts_.push_back(own.narrow(0, 0, own.numel() - 1) + taken_ * tokens);
  if (std::ssize(starts_) < size_.joined) return;
  starts_.push_back(at::full({1}, size_.joined * tokens, own.options()));
  const auto all = at::cat(std::exchange(starts_, {}));
  if (batch_.segments.defined() && batch_.segments.numel() == all.numel()) {
    batch_.segments.copy_(all);
  } else {  // the feeder's tensor has grown
    invalidate();
    batch_.segments = all;
  }
}

void MicroStep::require_longest_segment(const DeviceBatch& batch) {
  if (batch_.segments.defined() && batch_.longest_segment != batch.longest_segment) invalidate();
  batch_.longest_segment = batch.longest_segment;
}

void MicroStep::take_part(const DeviceBatch& whole, std::int64_t part) {
  const auto rows = whole.inputs.size(0) / size_.parts;
  assert(rows * size_.parts == whole.inputs.size(0));
  const auto copy = [&](at::Tensor& to, const at::Tensor& from) {
    const auto rows_of_part = from.narrow(0, part * rows, rows);
    if (!to.defined()) to = at::empty(rows_of_part.sizes(), rows_of_part.options());
    to.copy_(rows_of_part);
  };
  copy(batch_.inputs, whole.inputs);
  copy(batch_.targets, whole.targets);
  if (!whole.segments.defined()) return;
  if (!batch_.segments.defined() || batch_.segments.numel() != whole.segments.numel()) {
    invalidate();
    batch_.segments = at::empty_like(whole.segments);
  }
  // Segments of other chunks become empty.
  const auto count = batch_.inputs.numel(), begin = part * count;
  batch_.segments.copy_(whole.segments.clamp(begin, begin + count) - begin);
}

at::Tensor MicroStep::forward(const DeviceBatch& batch, std::int64_t part) {
  require_longest_segment(batch);
  if (size_.joined > 1) {
    assert(taken_ == 0);
  } else if (size_.parts == 1) {
    // A larger segment buffer has another address.
    const bool moved = batch_.segments.defined() && !batch_.segments.is_same(batch.segments);
    if (moved) invalidate();
    batch_ = batch;
  } else {
    take_part(batch, part);
  }
  passes_.run(0);
  return loss_;
}

void MicroStep::invalidate() {
  autograd_loss_.reset();  // may be in the graphs' memory pool
  passes_.invalidate();
}

}  // namespace tg
