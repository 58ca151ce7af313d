#include "eval/batch_loss.h"

namespace tg {

BatchLoss::BatchLoss(at::Device device, bool graphs)
    : pass_("validation", {[this] { loss_ = model_->loss(inputs_, targets_, {}); }}, device,
            graphs) {}

at::Tensor BatchLoss::operator()(const Gpt& model, const DeviceBatch& batch) {
  const at::NoGradGuard no_grad;
  if (!pass_.uses_graphs()) return model.loss(batch.inputs, batch.targets, {});
  if (model_ != &model) {
    loss_ = at::Tensor();  // it may be in the graph's memory
    pass_.invalidate();
    model_ = &model;
    inputs_ = at::empty_like(batch.inputs);
    targets_ = at::empty_like(batch.targets);
  }
  if (batch.inputs.sizes() != inputs_.sizes()) return model.loss(batch.inputs, batch.targets, {});
  inputs_.copy_(batch.inputs);
  targets_.copy_(batch.targets);
  pass_.run(0);
  return loss_;
}

}  // namespace tg
