#include "eval/batch_loss.h"

#include "eval/batch_documents.h"

namespace tg {

namespace {

at::Tensor loss_of(const Gpt& model, const DeviceBatch& batch) {
  return model.loss(batch.inputs, batch.targets, {}, documents_of(batch));
}

}  // namespace

BatchLoss::BatchLoss(at::Device device, bool graphs)
    : pass_("validation", {[this] { loss_ = loss_of(*model_, batch_); }}, device, graphs) {}

void BatchLoss::hold(const DeviceBatch& batch) {
  const auto like = [](const at::Tensor& x) { return x.defined() ? at::empty_like(x) : x; };
  loss_ = at::Tensor();  // it may be in the graph's memory
  pass_.invalidate();
  batch_ = batch;
  for (auto* x : {&batch_.inputs, &batch_.targets, &batch_.segments}) *x = like(*x);
}

at::Tensor BatchLoss::operator()(const Gpt& model, const DeviceBatch& batch) {
  const at::NoGradGuard no_grad;
  if (!pass_.uses_graphs()) return loss_of(model, batch);
  const auto more_segments = [&] {
    return batch.segments.defined() && batch.segments.numel() != batch_.segments.numel();
  };
  if (model_ != &model || stage_ != model.stage() || more_segments()) {
    model_ = &model;
    stage_ = model.stage();
    hold(batch);
  }
  if (batch.inputs.sizes() != batch_.inputs.sizes()) return loss_of(model, batch);
  batch_.inputs.copy_(batch.inputs);
  batch_.targets.copy_(batch.targets);
  if (batch.segments.defined()) batch_.segments.copy_(batch.segments);
  pass_.run(0);
  return loss_;
}

}  // namespace tg
