#include "train/trainer.h"

#include <cstdint>
#include <utility>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "config/derived.h"
#include "model_io/artifact_files.h"
#include "model_io/model_files.h"
#include "ops/quantize/hessian_factor.h"
#include "recipes/recipe.h"
#include "train/calibration.h"
#include "train/final_scores.h"
#include "train/peer_waits.h"
#include "train/step_launcher.h"
#include "train/warm_up.h"

namespace tg {
namespace {

// Final outputs of a run: its weights, as they are and quantized, and their scores.
class FinalOutputs {
 public:
  explicit FinalOutputs(Run& run)
      : run_(run),
        scores_(run.settings, run.machine, run.communicator, run.parts.weights,
                *run.parts.tokens.val, run.parts.validation,
                [&run](const RunEvent& event) { run.report.emit(event); }) {}

  // Call it after the last step: applies the average, writes final_model.* and ARTIFACT, scores
  // both, and finishes the checkpoints. Collective. Throws ExitCode::internal if a weight is not
  // finite, errors of writing, and stopped.
  void write() {
    run_.report.emit(LoopEnded{run_.state.clock.elapsed_ms(), run_.state.validation_ms});
    const auto peak = peak_memory(run_.machine.device);
    run_.report.emit(MemoryMeasured{peak.allocated, peak.reserved});
    apply_average();
    write_final_model();
    run_.free_step_memory();
    if (run_.settings.runtime.artifact != Artifact::none) write_and_score_artifact();
    scores_.score_windows();
    scores_.train_and_score(run_.state.fake_quant);
    scores_.score_and_train_in_phases();
    run_.checkpoints.finish();
  }

 private:
  void apply_average() {
    const auto line = run_.state.average->apply();
    require_finite(run_.parts.weights.parameters);
    if (line.empty()) return;
    run_.report.emit(AverageApplied{line});
    const auto began = Clock::now();
    const auto scored = run_.score();
    const auto& [line_name, name, digits] = recipe_of(run_.settings).average_score;
    run_.report.emit(FinalScored{.line_name = line_name,
                                 .name = name,
                                 .loss = scored.loss,
                                 .unmasked_loss = scored.unmasked_loss,
                                 .bpb = scored.bpb,
                                 .eval_ms = milliseconds_since(began),
                                 .digits = digits});
  }

  // Metadata of the final weights; its stage is the one that is scored after the last step.
  ModelRecord record() const {
    auto record = run_.state.record();
    record.stage = run_.parts.weights.model.plan().scored_stage(record.stage);
    return record;
  }

  void write_final_model() {
    if (run_.communicator.rank() == 0) {
      const PeerWatch::Work writing(run_.communicator.watch(),
                                    "writing the model to " + run_.output_dir);
      run_.report.emit(write_model(run_.parts.weights.parameters, record(), run_.output_dir));
    }
    run_.communicator.barrier();
  }

  // Runs on rank 0 only. `hessians`: with ARTIFACT=gptq.
  ArtifactWritten write_artifact(const std::string& path, Hessians hessians) {
    const auto& parameters = run_.parts.weights.parameters;
    const PeerWatch::Work writing(run_.communicator.watch(), "writing " + path);
    if (run_.settings.runtime.artifact != Artifact::gptq)
      return tg::write_artifact(parameters, record(), run_.settings, path);
    const auto model = quantize_by_gptq(parameters, std::move(hessians), run_.settings.gptq,
                                        run_.settings.runtime.record_quirks);
    run_.report.emit(model.event);
    return tg::write_artifact(model, record(), run_.settings.gptq.compressor, path);
  }

  // Afterwards, the parameters are those that the artifact holds.
  void write_and_score_artifact() {
    const auto path = run_.output_dir + "/" + artifact_name(run_.settings.runtime.artifact);
    Hessians hessians;
    if (run_.settings.runtime.artifact == Artifact::gptq)
      hessians = calibrate(run_.settings, run_.machine, run_.communicator, run_.parts.weights,
                           *run_.parts.tokens.train,
                           [this](const RunEvent& event) { run_.report.emit(event); });
    if (run_.communicator.rank() == 0) run_.report.emit(write_artifact(path, std::move(hessians)));
    hessians.clear();
    run_.communicator.barrier();
    auto& [parameters, record, model] = run_.parts.weights;
    load_artifact(parameters, path, run_.communicator);
    // As in the last record's script: its artifact uses recurrence even if training stopped before
    // it.
    if (run_.settings.runtime.record_quirks && run_.settings.runtime.artifact == Artifact::gptq)
      model.set_stage(std::ssize(model.plan().stages) - 1);
    scores_.score_sequences();
  }

  Run& run_;
  FinalScores scores_;
};

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
  void run() {
    const auto& config = run_.settings.run;
    auto& state = run_.state;
    const auto read_back = [this] { steps_.read_back(); };
    const bool stage_precedes_validation = recipe_of(run_.settings).stage_precedes_validation;
    catch_stop_signals();
    run_.checkpoints.begin(state, steps_.rank_0_ms());
    steps_.start();
    state.clock.start();
    const auto first = state.step;
    for (auto step = first;; ++step) {
      set_log_step(static_cast<long>(step));
      const double elapsed_ms = state.clock.elapsed_at(step, *state.average, read_back);
      const auto decided = state.clock.decide(step, elapsed_ms, *state.average);
      const bool last = step >= config.iterations || decided.stop;
      if (last) begin_evaluations();
      if (stage_precedes_validation && !last) steps_.begin_stage(step, elapsed_ms, decided.stage);
      if (last || (config.val_loss_every > 0 && step % config.val_loss_every == 0))
        validate(step, last);
      if (run_.trace) trace(step, last);
      if (last) break;
      steps_.launch(step, elapsed_ms, decided);
      if (step == first) {
        // Makes rank 0 name the run's files and set aside an earlier run's files; no rank saves a
        // checkpoint before the barrier.
        steps_.read_back();
        run_.communicator.begin_training();
      }
      if (run_.checkpoints.due(step + 1, steps_.rank_0_ms()))
        run_.checkpoints.save(state, steps_.rank_0_ms(), read_back);
      if (steps_.stop_requested()) stop();
    }
    state.clock.stop();
    run_.report.emit(*state.validations);
    if (state.step < config.iterations) {  // by MAX_WALLCLOCK_SECONDS
      run_.report.emit(StoppedEarly{state.step, state.clock.elapsed_ms()});
    }
  }

 private:
  void begin_evaluations() {
    steps_.read_back();
    set_log_step(static_cast<long>(run_.state.step));
    wait_for_device(run_.communicator, run_.machine.device);
    run_.report.take_names();  // a run may have no steps
    run_.communicator.barrier();
    run_.checkpoints.begin_evaluations(run_.state);
  }

  // Validates in the run's stage; after the last step, in the stage that the plan scores then.
  void validate(std::int64_t step, bool last) {
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

  void trace(std::int64_t step, bool last) {
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

  [[noreturn]] void stop() {
    steps_.read_back();
    set_log_step(static_cast<long>(run_.state.step));
    run_.checkpoints.stop(run_.state);
  }

  Run& run_;
  StepLauncher steps_;
};

}  // namespace

void train(RunSetup setup) {
  Run run(std::move(setup));
  prepare(run);
  TrainLoop(run).run();
  FinalOutputs(run).write();
  run.report.emit(RunEnded{.exit_code = 0, .step = run.state.step, .error = ""});
}

}  // namespace tg
