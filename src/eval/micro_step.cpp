#include "eval/micro_step.h"

namespace tg {

MicroStep::MicroStep(Gpt& model, const ForwardMode& mode, at::Device device, bool graphs)
    : passes_("the step",
              {[this, &model, mode] { loss_ = model.loss(batch_.inputs, batch_.targets, mode); },
               [this] {
                 loss_.backward();
                 loss_ = loss_.detach();
               }},
              device, graphs) {}

at::Tensor MicroStep::forward(const DeviceBatch& batch) {
  batch_ = batch;
  passes_.run(0);
  return loss_.detach();
}

void MicroStep::invalidate() {
  loss_ = at::Tensor();  // it may be in the graphs' memory
  passes_.invalidate();
}

}  // namespace tg
