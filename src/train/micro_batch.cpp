#include "train/micro_batch.h"

#include "config/derived.h"
#include "device/fit_rows.h"
#include "optim/averaging.h"
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
    run.parts.step.set_parts(shape, rows / fit.rows);
    run.report.emit(MicroBatchCut{rows, rows / fit.rows, fit.peak, fit.usable});
  }
}

}  // namespace tg
