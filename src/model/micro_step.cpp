#include "model/micro_step.h"

#include <cassert>

namespace tg {

MicroStep::MicroStep(Gpt& model, const ForwardMode& mode, at::Device device, bool graphs)
    : passes_("the step",
              {[this, &model, mode] {
                 auto part_mode = mode;
                 part_mode.scale /= static_cast<double>(parts_);
                 const auto tokens = static_cast<double>(batch_.inputs.numel() * parts_);
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

void MicroStep::set_parts(std::int64_t parts) {
  invalidate();
  batch_ = {};
  parts_ = parts;
}

void MicroStep::take_part(const DeviceBatch& whole, std::int64_t part) {
  const auto rows = whole.inputs.size(0) / parts_;
  assert(rows * parts_ == whole.inputs.size(0));
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
  batch_.longest_segment = whole.longest_segment;
}

at::Tensor MicroStep::forward(const DeviceBatch& batch, std::int64_t part) {
  // Attention's launches hold the longest segment.
  if (batch_.segments.defined() && batch_.longest_segment != batch.longest_segment) invalidate();
  if (parts_ == 1) {
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
