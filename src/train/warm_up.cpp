#include "train/warm_up.h"

#include <algorithm>

#include "config/derived.h"
#include "train/peer_waits.h"

namespace tg {

void warm_up(Run& run) {
  constexpr std::int64_t kWhenResuming = 2;
  const auto& settings = run.settings;
  auto& state = run.state;
  const auto asked = settings.run.warmup_steps;
  const auto of_first = run.resume ? std::min(asked, kWhenResuming) : asked;
  if (of_first == 0) return;
  // Before those of the first shape, one of each other: enough to load its kernels, or to run out
  // of memory.
  const auto shapes = batch_shapes(settings, run.communicator.world_size());
  const auto of_others = std::ssize(shapes) - 1, steps = of_others + of_first;
  // Where memory is scarce, weights and optimizer state do not fit on the device twice.
  const auto before = state.save(measures_memory(settings) || settings.runtime.memory_limit_gb > 0);
  const PeerWatch::Scope launching(watch_of_launches(run.communicator, run.machine.device));
  const StepPlan plan{.momentum = settings.optim.muon_momentum, .fake_quant = state.fake_quant};
  for (std::int64_t step = 1; step <= steps; ++step) {
    state.set_shape(step <= of_others ? shapes[static_cast<std::size_t>(step)] : shapes.front());
    run.parts.step.run(plan);
    run.report.emit(WarmUpStepEnded{step, steps});
  }
  state.restore(before);
  wait_for_device(run.communicator, run.machine.device);
}

}  // namespace tg
