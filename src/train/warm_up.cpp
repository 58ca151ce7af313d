#include "train/warm_up.h"

#include <algorithm>

#include "config/derived.h"
#include "train/peer_waits.h"

namespace tg {

void warm_up(const Settings& settings, bool resumes, at::Device device, Communicator& communicator,
             TrainStep& train_step, RunState& state, Report& report) {
  constexpr std::int64_t kWhenResuming = 2;
  const auto asked = settings.run.warmup_steps;
  const auto of_first = resumes ? std::min(asked, kWhenResuming) : asked;
  if (of_first == 0) return;
  // Before those of the first shape, one of each other: enough to load its kernels, or to run out
  // of memory.
  const auto shapes = batch_shapes(settings, communicator.world_size());
  const auto of_others = std::ssize(shapes) - 1, steps = of_others + of_first;
  // Where memory is scarce, weights and optimizer state do not fit on the device twice.
  const auto before = state.save(measures_memory(settings) || settings.runtime.memory_limit_gb > 0);
  const PeerWatch::Scope launching(watch_of_launches(communicator, device));
  const StepPlan plan{.momentum = settings.optim.muon_momentum, .fake_quant = state.fake_quant};
  for (std::int64_t step = 1; step <= steps; ++step) {
    state.set_shape(step <= of_others ? shapes[static_cast<std::size_t>(step)] : shapes.front());
    train_step.run(plan);
    report.emit(WarmUpStepEnded{step, steps});
  }
  state.restore(before);
  wait_for_device(communicator, device);
}

}  // namespace tg
