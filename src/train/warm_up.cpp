#include "train/warm_up.h"

#include <algorithm>
#include <vector>

#include "config/derived.h"
#include "device/fit_rows.h"
#include "optim/averaging.h"
#include "recipes/recipe.h"
#include "train/peer_waits.h"

namespace tg {
namespace {

// Zeros as tokens: a pass's memory does not depend on token values.
DeviceBatch any_tokens(std::int64_t rows, std::int64_t length, at::Device device) {
  const auto ids = at::zeros({rows, length}, at::TensorOptions(device).dtype(at::kLong));
  return {.inputs = ids, .targets = ids, .text_bytes = 0, .batch_index = 0};
}

void zero_all_gradients(const ParameterTable& parameters) {
  for (const auto& row : parameters.rows()) {
    if (row.value.grad().defined()) row.value.grad().zero_();
  }
}

// Temporary memory, in bytes, of updating weights and averages.
std::int64_t bytes_of_update(RunParts& parts, WeightAverage& average) {
  const GpuMemoryTrial trial(/*spare=*/0);
  parts.step.rehearse_update();
  average.update(/*step=*/1, /*lr_scale=*/1);
  wait_for_gpu();
  return trial.peak() - trial.before();
}

// The largest choice that fits on every rank.
std::int64_t agreed_rows(const std::vector<std::int64_t>& choices, std::int64_t mine,
                         at::Device device, Communicator& communicator) {
  const auto fits = at::tensor(choices, at::kLong).le(mine).to(at::kFloat).to(device);
  communicator.sum(fits).wait();
  const auto ranks = fits.cpu();
  const auto world = static_cast<float>(communicator.world_size());
  std::int64_t rows = choices.front();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (ranks.const_data_ptr<float>()[i] == world) rows = choices[i];
  }
  return rows;
}

RowsFit measured_rows(Run& run, const BatchShape& shape) {
  auto& parts = run.parts;
  const auto& settings = run.settings;
  const auto device = run.machine.device;
  const auto& parameters = parts.weights.parameters;
  // Allocates all copies that the run will keep, since they are made after the warm-up.
  WeightAverage average(parameters, settings.averaging, run.communicator,
                        settings.runtime.record_quirks);
  average.allocate_all();
  const auto pass = [&](std::int64_t rows_at_once) {
    parts.step.rehearse_passes(any_tokens(rows_at_once, shape.seq_len, device));
    zero_all_gradients(parameters);
  };
  pass(1);  // the update reads the gradients
  const auto spare = kSpareBytes + bytes_of_update(parts, average);
  const auto choices = divisors(shape.rows());
  const auto fit = fit_rows(choices, spare, device, pass);
  const auto agreed = agreed_rows(choices, fit.rows, device, run.communicator);
  return agreed == fit.rows ? fit : measure_rows(agreed, pass);
}

constexpr std::int64_t kWhenResuming = 2;

class WarmUp {
 public:
  explicit WarmUp(Run& run)
      : run_(run),
        settings_(run.settings),
        as_training_(recipe_of(settings_).warms_up_as_it_trains) {}

  // Runs the first stage with batches of all shapes: one step of each other shape, which loads its
  // kernels or runs out of memory, and then the steps of the first shape.
  void first_stage(std::int64_t first_steps) {
    const auto shapes = batch_shapes(settings_, run_.communicator.world_size());
    const auto other_steps = std::ssize(shapes) - 1, steps = other_steps + first_steps;
    for (std::int64_t step = 0; step < steps; ++step) {
      run_.state.set_shape(step < other_steps ? shapes[static_cast<std::size_t>(step + 1)]
                                              : shapes.front());
      run_step(std::max<std::int64_t>(step - other_steps, 0), 0);
      run_.report.emit(WarmUpStepEnded{step + 1, steps});
    }
  }

  void later_stage(std::int64_t stage, std::int64_t steps) {
    const auto& plan = run_.parts.weights.model.plan();
    const auto& name = plan.stages[static_cast<std::size_t>(stage)].warm_up_log_name;
    run_.report.emit(StageWarmUpBegan{run_.stage_facts(stage), name});
    for (std::int64_t step = 0; step < steps; ++step) {
      run_step(step, stage);
      run_.report.emit(WarmUpStepEnded{step + 1, steps, stage, name});
    }
  }

  void rehearse(std::int64_t stage) {
    const auto position = run_.parts.feeder.state();
    run_.parts.step.rehearse_stage(plan(0, stage));
    run_.parts.feeder.restore(position);
  }

 private:
  StepSchedule plan(std::int64_t step, std::int64_t stage) const {
    const auto& optim = settings_.optim;
    const auto iterations = settings_.run.iterations;
    return {.momentum = as_training_ ? muon_momentum(optim, step, iterations) : optim.muon_momentum,
            .clip_norm = as_training_ ? optim.grad_clip_norm : 0,
            .fake_quant = run_.state.fake_quant,
            .updates_all = updates_all(optim, step),
            .tie = tie_at(optim, step),
            .target_weights = step_target_weights(settings_, {.step = step}),
            .stage = stage};
  }
  void run_step(std::int64_t step, std::int64_t stage) { run_.parts.step.run(plan(step, stage)); }

  Run& run_;
  const Settings& settings_;
  const bool as_training_;
};

}  // namespace

void choose_parts(Run& run) {
  const auto device = run.machine.device;
  for (const auto& shape : batch_shapes(run.settings, run.communicator.world_size())) {
    const auto rows = shape.rows();
    RowsFit fit{.rows = rows};
    if (device.is_cuda()) {
      const PeerWatch::Scope launching(watch_of_launches(run.communicator, device));
      fit = measured_rows(run, shape);
    }
    run.parts.step.set_pass_size(shape, {.parts = rows / fit.rows});
    run.report.emit(MicroBatchCut{rows, rows / fit.rows, fit.peak, fit.usable});
  }
}

void warm_up(Run& run) {
  const auto& settings = run.settings;
  auto& state = run.state;
  const auto asked = settings.run.warmup_steps;
  const auto steps = run.resume ? std::min(asked, kWhenResuming) : asked;
  const auto last_stage = run.parts.weights.model.plan().last_stage();
  // Nothing is captured on the CPU.
  const bool captures = run.machine.device.is_cuda();
  if (steps == 0 && (last_stage == 0 || !captures)) return;
  // With little memory, weights and optimizer state do not fit on the device twice.
  const auto before = state.save(measures_memory(settings) || settings.runtime.memory_limit_gb > 0);
  const PeerWatch::Scope launching(watch_of_launches(run.communicator, run.machine.device));
  WarmUp warm_up(run);
  // The warm-up captures the passes of later stages, so that their first step takes no longer than
  // the second. Their eager runs come first, since captures would keep their memory beside the
  // eager passes' memory.
  if (captures) {
    for (std::int64_t stage = 1; stage <= last_stage; ++stage) warm_up.rehearse(stage);
  }
  // The momentum of Muon's shards, which a script may not reset after its warm-up on several ranks.
  NamedTensors momentum;
  if (settings.runtime.record_quirks && run.communicator.world_size() > 1 &&
      recipe_of(settings).keeps_warm_up_momentum) {
    momentum = run.parts.optimizer.sharded_state();
    std::erase_if(momentum,
                  [](const auto& named) { return !named.first.starts_with("momentum."); });
    // It depends on the warm-up's batches: consumes the one that the script's first passes, without
    // an update, consume.
    run.parts.feeder.wait_for_room();
    run.parts.feeder.next();
  }
  if (steps > 0) {
    warm_up.first_stage(steps);
    for (std::int64_t stage = 1; stage <= last_stage; ++stage) warm_up.later_stage(stage, steps);
  } else {
    for (std::int64_t stage = 0; stage <= last_stage; ++stage) warm_up.rehearse(stage);
  }
  auto kept = momentum;
  for (auto& [name, value] : kept) value = value.clone();
  state.restore(before);
  for (std::size_t i = 0; i < kept.size(); ++i) momentum[i].second.copy_(kept[i].second);
  wait_for_device(run.communicator, run.machine.device);
}

}  // namespace tg
