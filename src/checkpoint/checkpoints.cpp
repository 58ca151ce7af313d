#include "checkpoint/checkpoints.h"

#include "base/elapsed.h"
#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "base/stop_signal.h"
#include "checkpoint/checkpoint_folder.h"
#include "config/derived.h"
#include "run_log/run_files.h"

namespace tg {

namespace {

// Returns the manifest that all checkpoints of the run share, without step, model and files.
Manifest manifest_of(const Settings& settings, const Machine& machine, int world_size,
                     const FixedTexts& data) {
  auto fixed = fixed_settings(settings_as_computed(settings, machine), world_size);
  fixed.insert(data.begin(), data.end());
  return {.world_size = world_size,
          .program = program_line(),
          .settings = std::move(fixed),
          .files = {}};
}

}  // namespace

Checkpoints::Checkpoints(const Settings& settings, const Machine& machine,
                         Communicator& communicator, const Store& store,
                         const std::string& output_dir, const FixedTexts& data,
                         std::string how_to_go_on, Report& report)
    : settings_(settings),
      communicator_(communicator),
      root_(checkpoints_folder(output_dir)),
      how_to_go_on_(std::move(how_to_go_on)),
      report_(report),
      snapshot_(machine.device, communicator.rank(), communicator.world_size()),
      writer_(root_, manifest_of(settings, machine, communicator.world_size(), data),
              static_cast<std::size_t>(settings.runtime.keep), store, communicator.rank()),
      end_(store, communicator.rank(), communicator.world_size(),
           [] { return stop_signal() != 0; }) {}

void Checkpoints::begin(SavedState& state, double elapsed_ms) {
  saved_at_ms_ = elapsed_ms;
  if (settings_.runtime.checkpoint_every.count > 0) snapshot_.copy_tensors(state);
}

bool Checkpoints::due(std::int64_t step, double elapsed_ms) const {
  const auto [count, minutes] = settings_.runtime.checkpoint_every;
  if (count == 0 || step == settings_.run.iterations)
    return false;  // begin_evaluations() saves the last step
  return minutes ? elapsed_ms - saved_at_ms_ >= 60'000.0 * static_cast<double>(count)
                 : step % count == 0;
}

void Checkpoints::save(SavedState& state, double elapsed_ms,
                       const std::function<void()>& read_back) {
  const auto began = Clock::now();
  collect();
  snapshot_.copy_tensors(state);
  const auto before_step_ended = Clock::now();
  read_back();
  const double step_ms = milliseconds_since(before_step_ended);
  snapshot_.copy_scalars(state);
  copied_ = state.record();
  saved_at_ms_ = elapsed_ms;
  start();
  stall_ms_ = milliseconds_since(began) - step_ms;
}

void Checkpoints::copy(SavedState& state) {
  if (copied_.step == state.step) return;
  snapshot_.copy_tensors(state);
  snapshot_.copy_scalars(state);
  snapshot_.wait();
  copied_ = state.record();
}

void Checkpoints::start() {
  started_step_ = copied_.step;
  stall_ms_ = 0;
  writer_.start(copied_, snapshot_);
}

SavedCheckpoint Checkpoints::take() {
  auto saved = writer_.take(communicator_.watch());
  error_ = saved.error;
  return saved;
}

// Waits for the checkpoint in flight, if any, and reports it.
void Checkpoints::collect() {
  if (!writer_.started()) return;
  const auto saved = take();
  if (error_.empty()) {
    report_.emit(
        CheckpointSaved{started_step_, saved.folder, saved.bytes, stall_ms_, saved.write_ms});
  } else {
    report_.emit(CheckpointFailed{started_step_, error_});
  }
}

void Checkpoints::stop(SavedState& state) {
  collect();
  copy(state);
  save_and_end();
}

void Checkpoints::begin_evaluations(SavedState& state) {
  collect();
  copy(state);
  if (settings_.runtime.checkpoint_every.count > 0 && started_step_ != copied_.step) start();
  end_.watch([this] { save_and_end(); });
}

void Checkpoints::finish() {
  communicator_.barrier();
  end_.finish();  // does not return if the run is stopped: the process exits
  communicator_.barrier();
  collect();
  if (communicator_.rank() != 0 || checkpoint_steps(root_).empty()) return;
  write_finished(root_, {.step = copied_.step,
                         .iterations = settings_.run.iterations,
                         .max_wallclock_seconds = training_seconds(settings_.run)});
}

// Ranks may differ in whether they have taken the last checkpoint; started_step_ and error_ are
// equal on all ranks then, so all start the same checkpoint.
void Checkpoints::save_and_end() {
  silence_other_threads();  // they would only report ranks that have exited
  if (writer_.started()) take();
  if (started_step_ != copied_.step || !error_.empty()) {
    start();
    take();
  }
  const int signal = stop_signal();
  const auto why =
      fmt::format("stopped by {}{} after step {}", signal == 0 ? "a signal" : signal_name(signal),
                  signal == 0 ? " to another rank" : "", copied_.step);
  const auto text =
      error_.empty()
          ? fmt::format("{}, state saved in {}; {}", why, checkpoint_folder(root_, copied_.step),
                        how_to_go_on_)
          : fmt::format(
                "{}, and its state could not be saved ({}); an earlier checkpoint, if there "
                "is one, is untouched",
                why, error_);
  end_.exit_together(Error(error_.empty() ? ExitCode::stopped : ExitCode::io, text));
}

}  // namespace tg
