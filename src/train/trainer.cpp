#include "train/trainer.h"

#include <ATen/record_function.h>

#include <chrono>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "config/derived.h"
#include "optim/schedule.h"
#include "train/artifact_files.h"
#include "train/data_identity.h"
#include "train/final_scores.h"
#include "train/micro_batch.h"
#include "train/model_files.h"
#include "train/peer_waits.h"
#include "train/warm_up.h"

namespace tg {

namespace {

// Before anything is changed in OUTPUT_DIR.
std::optional<ResumePoint> with_same_data(RunSetup& setup, const FrozenTexts& data,
                                          const TokenSource& training, int rank) {
  auto resume = std::move(setup.resume);
  if (!resume) return resume;
  require_same_data(*resume, setup.settings.data, data, training.known_tokens());
  if (rank == 0) go_back_to(*resume, setup.output_dir);
  return resume;
}

// The step behind which this run's own files go on.
std::optional<std::int64_t> continued_step(const std::optional<ResumePoint>& resume) {
  return resume && resume->same_run ? std::optional(resume->manifest.step) : std::nullopt;
}

std::string how_to_go_on(const Settings& settings, const Origins& origins) {
  std::string with;
  if (origins.at("run_id") == "default" && origins.at("output_dir") == "default") {
    with = " with RUN_ID=" + settings.data.run_id;
  }
  if (settings.runtime.resume != "auto")
    with += (with.empty() ? " with" : " and") + std::string(" RESUME=auto");
  return fmt::format("start the same command again{} to go on", with);
}

}  // namespace

Trainer::Trainer(RunSetup setup, Communicator& communicator)
    : settings_(setup.settings),
      machine_(setup.machine),
      communicator_(communicator),
      output_dir_(setup.output_dir),
      parts_(settings_, machine_, communicator,
             setup.resume ? ModelUse::resuming : ModelUse::training),
      data_(data_identity(settings_.data, *parts_.tokens.train)),
      resume_(with_same_data(setup, data_, *parts_.tokens.train, communicator.rank())),
      state_(settings_, machine_.device, communicator, parts_.weights.parameters, parts_.optimizer,
             parts_.weights.model.fp8_scales(), parts_.feeder),
      report_(output_dir_, settings_, setup.origins,
              {.rank = communicator.rank(),
               .world_size = communicator.world_size(),
               .device = machine_.device_name,
               .versions = version_text()},
              continued_step(resume_)),
      checkpoints_(settings_, machine_, communicator, setup.store, output_dir_, data_,
                   how_to_go_on(settings_, setup.origins), report_),
      reporter_(settings_, communicator.world_size(), parts_, state_, report_) {
  state_.clock.replay(setup.lr_trace);
  if (settings_.runtime.profile == ProfileMode::on) {
    trace_.emplace(fmt::format("{}/trace_rank{}.json", output_dir_, communicator.rank()),
                   settings_.runtime, machine_.device, parts_.spans);
  }
  communicator.time_collective_waits(settings_.io.training_timing_breakdown !=
                                     TimingBreakdown::off);
  if (resume_) {
    const auto& manifest = resume_->manifest;
    report_.emit(
        Resumed{manifest.step, resume_->checkpoint, static_cast<int>(manifest.world_size)});
  }
  if (setup.ranks.world_size > 1) report_.emit(setup.ranks);
  report_.emit(describe(parts_, settings_, machine_, communicator.world_size()));
  for (const auto& padded : padded_sizes(settings_.model, machine_.padding)) report_.emit(padded);
  for (const auto& notice : parts_.weights.parameters.pattern_notices()) {
    report_.emit(SettingWarning{notice});
  }
  if (const auto notice = fp8_head_notice(settings_, machine_, parts_.weights.model.fp8_parts())) {
    report_.emit(SettingWarning{*notice});
  }
}

void Trainer::run() {
  if (measures_memory(settings_)) {
    choose_parts(settings_, machine_, communicator_, parts_, report_);
  }
  warm_up(settings_, resume_.has_value(), machine_.device, communicator_, parts_.step, state_,
          report_);
  if (resume_) {
    const PeerWatch::Work loading(communicator_.watch(), "loading " + resume_->checkpoint);
    load_checkpoint(*resume_, state_);
  } else {
    state_.start_average();
  }
  loop();
  finish();
  report_.emit(RunEnded{.exit_code = 0, .step = state_.step, .error = ""});
}

void Trainer::loop() {
  const auto& run = settings_.run;
  std::optional<std::int64_t> capped_at;  // the last step by MAX_WALLCLOCK_SECONDS
  catch_stop_signals();
  rank_0_ms_ = state_.clock.elapsed_ms();
  checkpoints_.begin(state_, rank_0_ms_);
  reporter_.start();
  state_.clock.start();
  const auto first = state_.step;
  for (auto step = first;; ++step) {
    set_log_step(static_cast<long>(step));
    const double elapsed = state_.clock.elapsed_at(step, *state_.average, [this] { read_back(); });
    if (state_.clock.decide(step, elapsed, *state_.average).stop) capped_at = step;
    const bool last = step >= run.iterations || step == capped_at;
    if (last) begin_evaluations();
    if (last || (run.val_loss_every > 0 && step % run.val_loss_every == 0)) validate(step);
    if (trace_) trace(step, last);
    if (last) break;
    train(step, elapsed);
    if (step == first) begin_training();
    if (checkpoints_.due(step + 1, rank_0_ms_)) {
      checkpoints_.save(state_, rank_0_ms_, [this] { read_back(); });
    }
    if (stop_) stop();
  }
  state_.clock.stop();
  report_.emit(*state_.validations);
  if (capped_at && *capped_at < run.iterations) {
    report_.emit(StoppedEarly{*capped_at, state_.clock.elapsed_ms()});
  }
}

// After the first step. As it is read back, rank 0 gives the run's files their names, and sets an
// earlier run's aside: no rank saves a checkpoint before the barrier.
void Trainer::begin_training() {
  read_back();
  communicator_.begin_training();
}

// Between two steps.
void Trainer::stop() {
  read_back();
  set_log_step(static_cast<long>(state_.step));
  checkpoints_.stop(state_);
}

void Trainer::begin_evaluations() {
  read_back();
  set_log_step(static_cast<long>(state_.step));
  wait_for_device(communicator_, machine_.device);
  report_.take_names();  // a run may have no steps
  communicator_.barrier();
  checkpoints_.begin_evaluations(state_);
}

// Launches a step, then reads back the metrics of the one before, which arrive while it runs.
void Trainer::train(std::int64_t step, double elapsed_ms) {
  if (communicator_.watch() != nullptr) communicator_.watch()->set_step(step);
  const double scale = state_.clock.lr_scale(step, elapsed_ms);
  const auto decided = state_.clock.decide(step, elapsed_ms, *state_.average);
  change_batches(step, decided.shape);
  if (!state_.fake_quant && decided.fake_quant) {
    state_.fake_quant = true;
    report_.emit(LateQatStarted{step, scale});
  }
  RECORD_USER_SCOPE("train_step");
  const PeerWatch::Scope launching(watch_of_launches(communicator_, machine_.device));
  parts_.phases.begin_step(parts_.feeder);
  const auto metrics = parts_.step.run({.lr_scale = scale,
                                        .momentum = muon_momentum(settings_.optim, step),
                                        .clip_norm = settings_.optim.grad_clip_norm,
                                        .clock_ms = state_.clock.last_step_ms(),
                                        .fake_quant = state_.fake_quant,
                                        .state_copied = &checkpoints_.state_copied()});
  const bool first_swa = [&] {
    const auto phase = parts_.phases.enter(Phase::optimizer);
    return state_.average->update(step + 1, scale);
  }();
  const auto before = launched_ ? launched_->tokens : state_.tokens;
  const auto tokens =
      before + tokens_per_step(settings_, communicator_.world_size(), decided.shape);
  LaunchedStep launched{step + 1,
                        state_.step,
                        tokens,
                        decided.shape.seq_len,
                        scale,
                        Event(compute_stream(machine_.device)),
                        Readback(metrics),
                        parts_.phases.end_step(parts_.feeder),
                        std::exchange(validation_before_step_ms_, 0),
                        reporter_.tokens_read(tokens)};
  read_back();
  launched_.emplace(std::move(launched));
  if (machine_.device.is_cpu()) read_back();
  if (first_swa && (state_.average->collects_swa() || settings_.runtime.record_quirks)) {
    report_.emit(SwaStarted{step + 1});
  }
}

// The step takes a while longer: what was read ahead is read again, graphs are captured anew.
void Trainer::change_batches(std::int64_t step, const BatchShape& shape) {
  if (shape == state_.shape()) return;
  state_.set_shape(shape);
  state_.clock.pace_changes();
  report_.emit(BatchesChanged{step, tokens_per_step(settings_, communicator_.world_size(), shape),
                              shape.seq_len});
}

void Trainer::read_back() {
  if (!launched_) return;
  auto launched = std::move(*launched_);
  launched_.reset();
  const auto metrics = [&] {
    const PeerWatch::Scope waiting(communicator_.watch());
    return StepMetrics::of(launched.metrics.wait());
  }();
  state_.step = launched.step;
  state_.tokens = launched.tokens;
  state_.clock.step_ended(launched.ended);
  state_.clock.add_rank_0_time(launched.clock_steps, metrics.clock_ms);
  rank_0_ms_ = metrics.clock_ms;
  stop_ |= metrics.stop;
  reporter_.step_ended(launched, metrics);
  checkpoints_.report_written();
}

void Trainer::trace(std::int64_t step, bool last) {
  if (!trace_->changes_at(step, last)) return;
  read_back();
  state_.clock.stop();
  {
    const PeerWatch::Work writing(communicator_.watch(), "writing the trace to " + output_dir_);
    if (const auto written = trace_->change()) report_.emit(*written);
  }
  state_.clock.start();
}

// An evaluation needs the memory that the captured step keeps for its passes.
void Trainer::make_room() {
  if (measures_memory(settings_)) parts_.step.release_graphs();
}

Score Trainer::score() {
  make_room();
  return parts_.validation.score(
      parts_.weights.model, settings_.run.train_seq_len.last(),
      [this](const ValidationProgress& so_far) {
        report_.emit(ValidationProgressed{so_far.batch, so_far.batches, so_far.mean_loss,
                                          so_far.predictions});
      });
}

void Trainer::validate(std::int64_t step) {
  read_back();
  wait_for_device(communicator_, machine_.device);
  state_.clock.stop();
  const auto began = std::chrono::steady_clock::now();
  const auto scored = score();
  const double spent = milliseconds_since(began);
  state_.validation_ms += spent;
  validation_before_step_ms_ += spent;
  report_.emit(Validated{step, scored.loss, scored.bpb, state_.clock.elapsed_ms(), spent});
  state_.add_validation(step, scored.loss);
  state_.clock.start();
}

void Trainer::finish() {
  report_.emit(LoopEnded{state_.clock.elapsed_ms(), state_.validation_ms});
  const auto peak = peak_memory(machine_.device);
  report_.emit(MemoryMeasured{peak.allocated, peak.reserved});
  const auto line = state_.average->apply();
  require_finite(parts_.weights.parameters);
  if (!line.empty()) {
    report_.emit(AverageApplied{line});
    const auto began = std::chrono::steady_clock::now();
    const auto scored = score();
    report_.emit(FinalScored{"DIAGNOSTIC post_ema", "DIAGNOSTIC_post_ema", scored.loss, scored.bpb,
                             milliseconds_since(began)});
  }
  if (communicator_.rank() == 0) {
    const PeerWatch::Work writing(communicator_.watch(), "writing the model to " + output_dir_);
    report_.emit(write_model(parts_.weights.parameters, output_dir_));
  }
  communicator_.barrier();
  hand_in();
}

// Writes ARTIFACT, sets the parameters to what its file holds, and scores them; without one, as
// they are.
void Trainer::hand_in() {
  make_room();
  FinalScores scores(settings_, machine_, communicator_, parts_.weights, *parts_.tokens.val,
                     parts_.validation, [this](const RunEvent& event) { report_.emit(event); });
  if (settings_.runtime.artifact != Artifact::none) {
    const auto& parameters = parts_.weights.parameters;
    const auto path = output_dir_ + "/" + artifact_name(settings_.runtime.artifact);
    if (communicator_.rank() == 0) {
      const PeerWatch::Work writing(communicator_.watch(), "writing " + path);
      report_.emit(write_artifact(parameters, settings_, path));
    }
    communicator_.barrier();
    load_artifact(parameters, path, communicator_);
    scores.score_sequences();
  }
  scores.score_windows();
  scores.train_and_score(state_.fake_quant);
  checkpoints_.finish();
}

}  // namespace tg
