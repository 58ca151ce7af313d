#include "train/warm_up.h"

#include <algorithm>

#include "config/derived.h"
#include "train/peer_waits.h"

namespace tg {

void warm_up(const Settings& settings, bool resumes, at::Device device, Communicator& communicator,
             TrainStep& train_step, RunState& state, Report& report) {
  constexpr std::int64_t kWhenResuming = 2;
  const auto asked = settings.run.warmup_steps;
  const auto steps = resumes ? std::min(asked, kWhenResuming) : asked;
  if (steps == 0) return;
  // Where memory is scarce, weights and optimizer state do not fit on the device twice.
  const auto before = state.save(measures_memory(settings) || settings.runtime.memory_limit_gb > 0);
  const PeerWatch::Scope launching(watch_of_launches(communicator, device));
  const StepPlan plan{.momentum = settings.optim.muon_momentum, .fake_quant = state.fake_quant};
  for (std::int64_t step = 1; step <= steps; ++step) {
    train_step.run(plan);
    report.emit(WarmUpStepEnded{step, steps});
  }
  state.restore(before);
  wait_for_device(communicator, device);
}

}  // namespace tg
