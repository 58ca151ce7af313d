#include "model/residual_coefficients.h"

#include <cassert>

#include "ops/pad.h"

namespace tg {

namespace {

MixWeight zeros(at::IntArrayRef sizes, const WeightSource& like) {
  const auto make = [&] { return at::zeros(sizes, like.value.options()); };
  return {make(), like.gradient.defined() ? make() : at::Tensor()};
}

// Weights of both lanes in the final one, [2, 1].
at::Tensor final_lane_weights(ParallelFinalLane lane, const at::TensorOptions& options) {
  if (lane == ParallelFinalLane::mean) return at::full({2, 1}, 0.5, options);
  const auto coefficients = at::zeros({2, 1}, options);
  coefficients[lane == ParallelFinalLane::attention ? 0 : 1].fill_(1);
  return coefficients;
}

void add(const WeightSource& to, const at::Tensor& gradient) {
  if (to.gradient.defined()) to.gradient.add_(gradient);
}

}  // namespace

ResidualCoefficients::ResidualCoefficients(const Plan& plan, const ParameterTable& table,
                                           std::int64_t dim)
    : dim_(dim) {
  const LayerCall *skip = nullptr, *lanes = nullptr;
  for (const auto& stage : plan.stages) {
    for (const auto& call : stage.pass.calls) {
      if (makes_skip(call)) {
        assert(skip == nullptr || skip->skip.weights.row == call.skip.weights.row);
        skip = &call;
      }
      if (call.lanes.residual) lanes = &call;
    }
  }
  if (skip != nullptr) {
    skip_weights_ = source_of(table[skip->skip.weights]);
    if (skip->skip.gates) skip_gates_ = source_of(table[skip->skip.gates]);
    const auto rows = skip_weights_.value.size(0);
    skips_ = zeros({rows, 2, dim}, skip_weights_);
    self_skip_ = at::zeros({rows, 1}, skip_weights_.value.options());
    for (const auto& stage : plan.stages) {
      for (const auto& call : stage.pass.calls)
        if (makes_skip(call) && !call.skip.slot) self_skip_[call.skip.row].fill_(1);
    }
  }
  if (lanes != nullptr) {
    residual_ = source_of(table[lanes->lanes.residual]);
    post_ = source_of(table[lanes->lanes.post]);
    last_row_ = lanes->lanes.row;
    lanes_ = zeros({residual_.value.size(0), 2, 4}, residual_);
    final_ = zeros({1, 4}, residual_);
    final_lane_weights_ = final_lane_weights(plan.head.lane, residual_.value.options());
  }
}

MixWeight ResidualCoefficients::row(const MixWeight& weights, std::int64_t row) {
  return {weights.value[row], weights.gradient.defined() ? weights.gradient[row] : at::Tensor()};
}

at::Tensor ResidualCoefficients::x_coefficient() const {
  return skip_gates_.value.defined() ? skip_gates_.value.sigmoid()
                                     : at::ones_like(skip_weights_.value);
}

void ResidualCoefficients::make() {
  if (skips_.defined()) {
    const auto x = x_coefficient();
    const auto skip =
        skip_gates_.value.defined() ? (1 - x) * skip_weights_.value : skip_weights_.value;
    const auto coefficients = at::stack({x + self_skip_ * skip, (1 - self_skip_) * skip}, 1);
    skips_.value.copy_(pad_last(coefficients, dim_));
  }
  if (lanes_.defined()) {
    at::cat_out(lanes_.value, {residual_.value.diag_embed(), post_.value.transpose(1, 2)}, 2);
    at::sum_out(final_.value, final_lane_weights_ * lanes_.value[last_row_], 0, /*keepdim=*/true);
  }
}

ResidualCoefficients ResidualCoefficients::as_constants() const {
  auto constants = *this;
  for (auto* weights : {&constants.skips_, &constants.lanes_, &constants.final_})
    weights->gradient.reset();
  return constants;
}

void ResidualCoefficients::collect_gradients() {
  if (skips_.gradient.defined()) {
    const auto gradient = skips_.gradient.narrow(2, 0, skip_weights_.value.size(1));
    const auto of_x = gradient.select(1, 0);
    const auto of_skip = self_skip_ * of_x + (1 - self_skip_) * gradient.select(1, 1);
    if (skip_gates_.value.defined()) {
      const auto x = x_coefficient();
      add(skip_weights_, (1 - x) * of_skip);
      add(skip_gates_, (of_x - skip_weights_.value * of_skip) * x * (1 - x));
    } else {
      add(skip_weights_, of_skip);
    }
    skips_.gradient.zero_();
  }
  if (lanes_.gradient.defined()) {
    lanes_.gradient[last_row_].add_(final_lane_weights_ * final_.gradient);
    add(residual_, lanes_.gradient.narrow(2, 0, 2).diagonal(0, 1, 2));
    add(post_, lanes_.gradient.narrow(2, 2, 2).transpose(1, 2));
    lanes_.gradient.zero_();
    final_.gradient.zero_();
  }
}

}  // namespace tg
