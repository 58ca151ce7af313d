#include "train/trainer.h"

#include <cstdint>
#include <utility>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "config/derived.h"
#include "recipes/recipe.h"
#include "train/final_outputs.h"
#include "train/micro_batch.h"
#include "train/peer_waits.h"
#include "train/run.h"
#include "train/step_launcher.h"
#include "train/warm_up.h"

namespace tg {

namespace {

// Prepares the state that the first step starts from.
void prepare(Run& run) {
  if (measures_memory(run.settings)) choose_parts(run);
  warm_up(run);
  if (run.resume) {
    const PeerWatch::Work loading(run.communicator.watch(), "loading " + run.resume->checkpoint);
    load_checkpoint(*run.resume, run.state, run.communicator.rank(), run.communicator.world_size());
  } else {
    run.state.start_average();
  }
}

// The training loop: steps, and between them validations, checkpoints and the trace.
class TrainLoop {
 public:
  explicit TrainLoop(Run& run) : run_(run), steps_(run) {}
  // Runs from the state's step to the last one, by ITERATIONS or by the clock. Collective. Throws
  // ExitCode::internal if a loss or gradient is not finite, errors of reading and writing, and
  // stopped.
  void run();

 private:
  void start();
  void begin_training();
  void begin_evaluations();
  // Validates in the run's stage; after the last step, in the stage that the plan scores then.
  void validate(std::int64_t step, bool last);
  void trace(std::int64_t step, bool last);
  void save_checkpoint();
  [[noreturn]] void stop();

  Run& run_;
  StepLauncher steps_;
};

void TrainLoop::run() {
  const auto& config = run_.settings.run;
  auto& state = run_.state;
  const bool stage_precedes_validation = recipe_of(run_.settings).stage_precedes_validation;
  start();
  const auto first = state.step;
  for (auto step = first;; ++step) {
    set_log_step(static_cast<long>(step));
    const double elapsed_ms =
        state.clock.elapsed_at(step, *state.average, [this] { steps_.read_back(); });
    const auto decided = state.clock.decide(step, elapsed_ms, *state.average);
    const bool last = step >= config.iterations || decided.stop;
    if (last) begin_evaluations();
    if (stage_precedes_validation && !last) steps_.begin_stage(step, elapsed_ms, decided.stage);
    if (last || (config.val_loss_every > 0 && step % config.val_loss_every == 0))
      validate(step, last);
    if (run_.trace) trace(step, last);
    if (last) break;
    steps_.launch(step, elapsed_ms, decided);
    if (step == first) begin_training();
    if (run_.checkpoints.due(step + 1, steps_.rank_0_ms())) save_checkpoint();
    if (steps_.stop_requested()) stop();
  }
  state.clock.stop();
  run_.report.emit(*state.validations);
  if (state.step < config.iterations) {  // by MAX_WALLCLOCK_SECONDS
    run_.report.emit(StoppedEarly{state.step, state.clock.elapsed_ms()});
  }
}

void TrainLoop::start() {
  catch_stop_signals();
  run_.checkpoints.begin(run_.state, steps_.rank_0_ms());
  steps_.start();
  run_.state.clock.start();
}

// Call it after the first step. Its readback makes rank 0 name the run's files and set aside those
// of an earlier run; no rank saves a checkpoint before the barrier.
void TrainLoop::begin_training() {
  steps_.read_back();
  run_.communicator.begin_training();
}

void TrainLoop::begin_evaluations() {
  steps_.read_back();
  set_log_step(static_cast<long>(run_.state.step));
  wait_for_device(run_.communicator, run_.machine.device);
  run_.report.take_names();  // a run may have no steps
  run_.communicator.barrier();
  run_.checkpoints.begin_evaluations(run_.state);
}

void TrainLoop::validate(std::int64_t step, bool last) {
  auto& state = run_.state;
  steps_.read_back();
  wait_for_device(run_.communicator, run_.machine.device);
  state.clock.stop();
  const auto began = Clock::now();
  auto& model = run_.parts.weights.model;
  model.set_stage(last ? model.plan().scored_stage(state.stage) : state.stage);
  const auto scored = run_.score();
  const double spent_ms = milliseconds_since(began);
  state.validation_ms += spent_ms;
  steps_.add_validation_time(spent_ms);
  run_.report.emit(Validated{step, scored.loss, scored.bpb, state.clock.elapsed_ms(), spent_ms,
                             scored.unmasked_loss});
  state.add_validation(step, scored.loss);
  state.clock.start();
}

void TrainLoop::trace(std::int64_t step, bool last) {
  if (!run_.trace->changes_at(step, last)) return;
  steps_.read_back();
  run_.state.clock.stop();
  {
    const PeerWatch::Work writing(run_.communicator.watch(),
                                  "writing the trace to " + run_.output_dir);
    if (const auto written = run_.trace->change()) run_.report.emit(*written);
  }
  run_.state.clock.start();
}

void TrainLoop::save_checkpoint() {
  run_.checkpoints.save(run_.state, steps_.rank_0_ms(), [this] { steps_.read_back(); });
}

void TrainLoop::stop() {
  steps_.read_back();
  set_log_step(static_cast<long>(run_.state.step));
  run_.checkpoints.stop(run_.state);
}

}  // namespace

void train(RunSetup setup) {
  Run run(std::move(setup));
  prepare(run);
  TrainLoop(run).run();
  FinalOutputs(run).write();
  run.report.emit(RunEnded{.exit_code = 0, .step = run.state.step, .error = ""});
}

}  // namespace tg
