#pragma once
// A rank that trains a tiny model step by step: what tests of TrainStep on CPU and GPU share.
#include "config/derived.h"
#include "data/prefetch.h"
#include "data/synthetic_tokens.h"
#include "data/training_order.h"
#include "tests/comm/ranks.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"
#include "train/train_step.h"

namespace tg::test {

inline Settings tiny_settings(const ModelConfig& model) {
  auto settings = settings_of(model);
  settings.run.train_seq_len = 8;
  settings.run.train_batch_tokens = 8 * 2 * 8;
  return settings;
}

class TrainingRank {
 public:
  TrainingRank(const Settings& settings, Communicator& communicator, at::Device device = at::kCPU)
      : settings_(settings),
        table_(random_parameters_on(device, settings)),
        model_(test::plan_of(settings.model), table_, numerics_of(settings)),
        optimizer_(table_, settings.optim,
                   {.record_quirks = settings.runtime.record_quirks,
                    .scaled_tokens = settings.runtime.compute_dtype == ComputeDtype::fp16 ? 1 : 0},
                   communicator),
        feeder_(make_source(make_training_order(settings, tokens_, communicator.rank(),
                                                communicator.world_size()),
                            {.seq_len = settings.run.train_seq_len.first(),
                             .segments = training_segments(settings)},
                            {}, batch_allocator(device)),
                device, /*copy_stream=*/false),
        phases_(TimingBreakdown::off, /*nvtx=*/false, device, nullptr),
        step_(model_, optimizer_, feeder_, phases_, communicator,
              micro_batches(settings, communicator.world_size()), device, settings.runtime.graphs) {
  }

  void set_pass_size(const PassSize& size) {
    step_.set_pass_size(batch_shape(settings_, /*world_size=*/1, {}), size);
  }
  TrainStep& train_step() { return step_; }
  Gpt& model() { return model_; }
  StepMetrics step(const StepSchedule& plan = {.momentum = 0.9}) {
    return StepMetrics::from_tensor(step_.run(plan).cpu());
  }
  const ParameterTable& table() const { return table_; }
  const Optimizer& optimizer() const { return optimizer_; }
  Feeder& feeder() { return feeder_; }

 private:
  static Numerics numerics_of(const Settings& settings) {
    if (!settings.runtime.fp8.any()) return {};
    return {.compute = at::kBFloat16,
            .fp8 = settings.runtime.fp8,
            .has_fp8 = true,
            .step_tokens = settings.run.train_batch_tokens.first()};
  }
  static ParameterTable random_parameters_on(at::Device device, const Settings& settings) {
    auto table = test::make_parameters(settings.model, at::kFloat, device,
                                       {.record_quirks = settings.runtime.record_quirks});
    const auto drawn = random_parameters(settings.model, at::kFloat, 1);
    for (const auto& [name, value] : drawn.named_values()) table[name].detach().copy_(value);
    return table;
  }

  const Settings settings_;
  SyntheticTokens tokens_{"train", static_cast<int>(settings_.model.vocab_size), 1};
  ParameterTable table_;
  Gpt model_;
  Optimizer optimizer_;
  Feeder feeder_;
  PhaseRecorder phases_;
  TrainStep step_;
};

// Equal but for the order of summation in fp32.
inline void expect_close(const StepMetrics& found, const StepMetrics& expected, int step) {
  EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss) << step;
  EXPECT_NEAR(found.grad_norm, expected.grad_norm, 1e-4 * expected.grad_norm) << step;
}

// A step with one gradient that is not finite is skipped, and no other one.
inline void expect_one_step_skipped(TrainingRank& rank, int steps_before) {
  for (int i = 0; i < steps_before; ++i) EXPECT_FALSE(rank.step().skipped) << i;
  rank.table()["qo_bank"].grad().view({-1})[5].fill_(std::nan(""));
  EXPECT_TRUE(rank.step().skipped);
  for (int i = 0; i < 3; ++i) {
    const auto metrics = rank.step();
    EXPECT_FALSE(metrics.skipped) << i << " steps later, norm " << metrics.grad_norm;
  }
}

}  // namespace tg::test
