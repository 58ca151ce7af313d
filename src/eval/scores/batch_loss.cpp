#include "eval/scores/batch_loss.h"

#include "model/micro_step.h"

namespace tg {

BatchLoss::BatchLoss(at::Device device, bool graphs, const at::Tensor& mask)
    : mask_(mask),
      pass_("validation", {[this] { losses_ = eager(*model_, batch_); }}, device, graphs) {}

BatchLoss::Losses BatchLoss::eager(const Gpt& model, const DeviceBatch& batch) const {
  const at::NoGradGuard no_grad;
  if (!masks()) return {model.loss(batch.inputs, batch.targets, {}, documents_of(batch))};
  const auto of_tokens = this->of_tokens(model, batch);
  return {of_tokens.loss.mean(), of_tokens.unmasked.mean()};
}

BatchLoss::Losses BatchLoss::of_tokens(const Gpt& model, const DeviceBatch& batch) const {
  const auto documents = documents_of(batch);
  if (!masks()) return {model.token_losses(batch.inputs, batch.targets, {}, documents)};
  const auto losses = model.masked_losses(batch.inputs, batch.targets, mask_, documents);
  return {losses.masked, losses.unmasked};
}

void BatchLoss::hold(const DeviceBatch& batch) {
  const auto like = [](const at::Tensor& x) { return x.defined() ? at::empty_like(x) : x; };
  losses_ = {};  // may be in the graph's memory pool
  pass_.invalidate();
  batch_ = batch;
  for (auto* x : {&batch_.inputs, &batch_.targets, &batch_.segments}) *x = like(*x);
}

BatchLoss::Losses BatchLoss::operator()(const Gpt& model, const DeviceBatch& batch) {
  if (!pass_.uses_graphs()) return eager(model, batch);
  const auto more_segments = [&] {
    return batch.segments.defined() && batch.segments.numel() != batch_.segments.numel();
  };
  if (model_ != &model || stage_ != model.stage() || more_segments()) {
    model_ = &model;
    stage_ = model.stage();
    hold(batch);
  }
  if (batch.inputs.sizes() != batch_.inputs.sizes()) return eager(model, batch);
  const at::NoGradGuard no_grad;
  batch_.inputs.copy_(batch.inputs);
  batch_.targets.copy_(batch.targets);
  if (batch.segments.defined()) batch_.segments.copy_(batch.segments);
  pass_.run(0);
  return losses_;
}

}  // namespace tg
