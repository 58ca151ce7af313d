#include "train/run_state.h"

#include <cassert>

#include "base/error.h"
#include "config/derived.h"
#include "config/types/text.h"

namespace tg {
namespace {

// Restores a snapshot into the state, which is visited in the order in which it was saved.
class Writer final : public StateVisitor {
 public:
  explicit Writer(const RunSnapshot& snapshot) : snapshot_(snapshot) {}

  void operator()(const std::string& name, std::int64_t& value) override { write(name, value); }
  void operator()(const std::string& name, double& value) override { write(name, value); }
  void operator()(const std::string& name, bool& value) override { write(name, value); }
  void operator()(const std::string& name, const at::Tensor& value, Placement) override {
    assert(tensors_ < snapshot_.tensors.size() && snapshot_.tensors[tensors_].first == name);
    value.copy_(snapshot_.tensors[tensors_++].second);
  }

 private:
  template <class Value>
  void write(const std::string& name, Value& value) {
    assert(scalars_ < snapshot_.scalars.size() && snapshot_.scalars[scalars_].first == name);
    value = std::get<Value>(snapshot_.scalars[scalars_++].second);
  }

  const RunSnapshot& snapshot_;
  std::size_t scalars_ = 0, tensors_ = 0;
};

// Visits an object with replicated_state() and sharded_state(), such as Optimizer.
void visit_sharded(StateVisitor& visitor, const std::string& prefix, const auto& object) {
  for (const auto& [name, value] : object.replicated_state()) visitor(prefix + name, value);
  for (const auto& [name, value] : object.sharded_state())
    visitor(prefix + name, value, Placement::sharded);
}

}  // namespace

std::optional<StepSkipped> FiniteWatch::after_step(std::int64_t step, const StepMetrics& metrics) {
  const double loss = metrics.loss, norm = metrics.grad_norm;
  if (!metrics.skipped) {
    in_a_row_ = 0;
    return {};
  }
  if (metrics.loss_scale && *metrics.loss_scale > 1) {
    return StepSkipped{step, loss, norm, ++overflows_, metrics.loss_scale};
  }
  REQUIRE(config_.on_nonfinite == OnNonfinite::skip, ExitCode::internal,
          "step {}: loss {} and gradient norm {} must be finite; the update was skipped and "
          "nothing was written. Lower MATRIX_LR, SCALAR_LR and TIED_EMBED_LR, set GRAD_CLIP_NORM, "
          "or use ON_NONFINITE=skip",
          step, loss, norm);
  ++skipped_;
  REQUIRE(++in_a_row_ < config_.nonfinite_limit, ExitCode::internal,
          "step {}: loss {} and gradient norm {} must be finite, and were not in {} steps in a row "
          "(NONFINITE_LIMIT={}); no model was written. Lower MATRIX_LR, SCALAR_LR and "
          "TIED_EMBED_LR, set GRAD_CLIP_NORM, or start from finite weights",
          step, loss, norm, in_a_row_, config_.nonfinite_limit);
  return StepSkipped{step, loss, norm, skipped_, {}};
}

RunState::RunState(const Settings& settings, at::Device device, Communicator& communicator,
                   const Plan& plan, const ParameterTable& parameters, const Optimizer& optimizer,
                   const Fp8Scales& fp8_scales, Feeder& feeder)
    : fake_quant(settings.averaging.qat_enabled),
      clock(settings, plan.stages, device, communicator),
      finite_watch(settings.runtime),
      settings_(settings),
      plan_(plan),
      parameters_(parameters),
      optimizer_(optimizer),
      fp8_scales_(fp8_scales),
      feeder_(feeder),
      communicator_(communicator),
      shape_(batch_shape(settings, communicator.world_size(), {})) {}

void RunState::set_shape(const BatchShape& shape) {
  if (shape == shape_) return;
  shape_ = shape;
  feeder_.reshape(shape);
}

void RunState::start_average() {
  average.emplace(parameters_, settings_.averaging, communicator_, settings_.runtime.record_quirks);
}

void RunState::add_validation(std::int64_t at_step, double loss) {
  if (!validations || loss < validations->best_loss) {
    validations = {.best_step = at_step, .best_loss = loss};
  }
  validations->last_step = at_step;
  validations->last_loss = loss;
}

void RunState::visit(StateVisitor& visitor) {
  visit_rewound(visitor);
  for (const auto& [name, value] : optimizer_.kept_gradients())
    visitor("optimizer." + name, value, Placement::sharded);
}

ModelRecord RunState::record() const {
  return {.recipe = std::string(choice_name(settings_.model.recipe)),
          .stage = stage,
          .qat = fake_quant,
          .step = step};
}

void RunState::visit_rewound(StateVisitor& visitor) {
  visitor("step", step);
  visit_batches(visitor);
  visitor("fake_quant", fake_quant);
  if (plan_.stages.size() > 1) visitor("stage", stage);
  visitor("validation_ms", validation_ms);
  clock.visit_state(visitor);
  finite_watch.visit_state(visitor);
  visit_validations(visitor);
  visit_loader(visitor);
  for (const auto& [name, value] : parameters_.named_values()) visitor("parameter." + name, value);
  visit_sharded(visitor, "optimizer.", optimizer_);
  for (const auto& [name, value] : optimizer_.gradient_sums())
    visitor("optimizer." + name, value, Placement::summed);
  for (const auto& [name, value] : fp8_scales_.state()) visitor("model." + name, value);
  visit_average(visitor);
}

// If batch shapes do not change, both follow from the settings.
void RunState::visit_batches(StateVisitor& visitor) {
  if (!batches_change(settings_)) {
    tokens = step * tokens_per_step(settings_, communicator_.world_size());
    return;
  }
  visitor("tokens", tokens);
  auto shape = shape_;
  visitor("loader.micro_batch_tokens", shape.tokens);
  visitor("loader.seq_len", shape.seq_len);
  if (!segment_limits(settings_).constant()) visitor("loader.segment_limit", shape.segment_limit);
  set_shape(shape);
}

void RunState::visit_validations(StateVisitor& visitor) {
  bool any = validations.has_value();
  visitor("validations.any", any);
  auto summary = validations.value_or(ValidationSummary{});
  visitor("validations.best_step", summary.best_step);
  visitor("validations.best_loss", summary.best_loss);
  visitor("validations.last_step", summary.last_step);
  visitor("validations.last_loss", summary.last_loss);
  validations = any ? std::optional(summary) : std::nullopt;
}

void RunState::visit_loader(StateVisitor& visitor) {
  const auto before = feeder_.state();
  auto position = before;
  visitor("loader.token_offset", position.token_offset);
  visitor("loader.micro_batches", position.micro_batches);
  if (position != before) feeder_.restore(position);
}

void RunState::visit_average(StateVisitor& visitor) {
  bool any = average.has_value();
  visitor("average.any", any);
  if (!any) average.reset();
  if (any && !average) start_average();
  if (!average) return;
  average->visit_counters(
      [&](const std::string& name, auto& value) { visitor("average." + name, value); });
  visit_sharded(visitor, "average.", *average);
}

RunSnapshot RunState::save(bool on_host) {
  const at::NoGradGuard no_grad;
  RunSnapshot snapshot;
  StateReader reader;
  reader.scalar = [&](const auto& name, StateScalar value) {
    snapshot.scalars.emplace_back(name, value);
  };
  reader.tensor = [&](const auto& name, const at::Tensor& value, Placement) {
    snapshot.tensors.emplace_back(
        name, on_host ? value.to(at::kCPU, false, /*copy=*/true) : value.clone());
  };
  visit_rewound(reader);
  return snapshot;
}

void RunState::restore(const RunSnapshot& snapshot) {
  const at::NoGradGuard no_grad;
  Writer writer(snapshot);
  visit_rewound(writer);
}

}  // namespace tg
