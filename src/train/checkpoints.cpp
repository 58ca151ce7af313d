#include "train/checkpoints.h"

#include <chrono>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "base/stop_signal.h"
#include "comm/convert.h"
#include "store/checkpoint_folder.h"
#include "store/finished_marker.h"

namespace tg {

namespace {

using Clock = std::chrono::steady_clock;

// Keys of the store: a rank was told to stop during the evaluations; rank 0 said so.
const std::string kStop = "stop_evaluations", kEnded = "ended";

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr int kPollsOfStore = 10;  // the store is asked at every tenth poll
// Ranks other than 0 leave after rank 0's line and before its process, which may hold the store.
constexpr auto kOthersLeave = std::chrono::milliseconds(300);
constexpr int kPollsForRank0 = 250;  // 5 s

// Of every checkpoint of the run, without step and files.
Manifest manifest_of(const Settings& settings, const Machine& machine, int world_size,
                     const FrozenTexts& data) {
  auto frozen = frozen_settings(settings_as_computed(settings, machine), world_size);
  frozen.insert(data.begin(), data.end());
  return {.world_size = world_size,
          .program = program_line(),
          .settings = std::move(frozen),
          .files = {}};
}

}  // namespace

std::string checkpoints_folder(const std::string& output_dir) {
  return output_dir + "/checkpoints";
}

Checkpoints::Checkpoints(const Settings& settings, const Machine& machine,
                         Communicator& communicator, const Store& store,
                         const std::string& output_dir, const FrozenTexts& data,
                         std::string how_to_go_on, Report& report)
    : settings_(settings),
      communicator_(communicator),
      store_(store ? store->clone() : store),
      root_(checkpoints_folder(output_dir)),
      how_to_go_on_(std::move(how_to_go_on)),
      report_(report),
      snapshot_(machine.device, communicator.rank(), communicator.world_size()),
      writer_(root_, manifest_of(settings, machine, communicator.world_size(), data),
              static_cast<std::size_t>(settings.runtime.keep), store, communicator.rank()) {}

Checkpoints::~Checkpoints() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  if (stop_watch_.joinable()) stop_watch_.join();
}

void Checkpoints::begin(RunState& state, double elapsed_ms) {
  saved_at_ms_ = elapsed_ms;
  if (settings_.runtime.checkpoint_every.count > 0) snapshot_.copy_tensors(state);
}

bool Checkpoints::due(std::int64_t step, double elapsed_ms) const {
  const auto [count, minutes] = settings_.runtime.checkpoint_every;
  if (count == 0 || step == settings_.run.iterations) return false;  // the last is saved anyway
  return minutes ? elapsed_ms - saved_at_ms_ >= 60'000.0 * static_cast<double>(count)
                 : step % count == 0;
}

void Checkpoints::save(RunState& state, double elapsed_ms, const std::function<void()>& read_back) {
  const auto began = Clock::now();
  collect();
  snapshot_.copy_tensors(state);
  const auto before_step_ended = Clock::now();
  read_back();
  const double step_ms = milliseconds_since(before_step_ended);
  snapshot_.copy_scalars(state);
  copied_step_ = state.step;
  saved_at_ms_ = elapsed_ms;
  start();
  stall_ms_ = milliseconds_since(began) - step_ms;
}

void Checkpoints::copy(RunState& state) {
  if (copied_step_ == state.step) return;
  snapshot_.copy_tensors(state);
  snapshot_.copy_scalars(state);
  snapshot_.wait();
  copied_step_ = state.step;
}

void Checkpoints::start() {
  started_step_ = copied_step_;
  stall_ms_ = 0;
  writer_.start(copied_step_, snapshot_);
}

void Checkpoints::report_written() {
  if (writer_.started() && writer_.ended()) collect();
}

// Waits for the checkpoint that is being written, if there is one.
void Checkpoints::collect() {
  if (!writer_.started()) return;
  const PeerWatch::Work saving(communicator_.watch(), "saving a checkpoint to " + root_);
  const auto saved = writer_.take();
  error_ = saved.error;
  if (error_.empty()) {
    report_.emit(
        CheckpointSaved{started_step_, saved.folder, saved.bytes, stall_ms_, saved.write_ms});
  } else {
    report_.emit(CheckpointFailed{started_step_, error_});
  }
}

void Checkpoints::stop(RunState& state) {
  collect();
  copy(state);
  save_and_end();
}

void Checkpoints::begin_evaluations(RunState& state) {
  collect();
  copy(state);
  if (settings_.runtime.checkpoint_every.count > 0 && started_step_ != copied_step_) start();
  stop_watch_ = std::thread([this] { watch_for_stop(); });
}

// Ends the process when this rank or another one is told to stop, whatever the main thread does.
void Checkpoints::watch_for_stop() {
  for (int poll = 0;; ++poll) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      stopping_ = stop_signal() != 0 || (poll % kPollsOfStore == 0 && is_set(kStop));
      if (stopping_) break;
    }
    std::this_thread::sleep_for(kPoll);
  }
  if (store_) store_->set(kStop, bytes_of("1"));
  save_and_end();
}

void Checkpoints::finish() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  // No rank begins a stop any more; one that did has told the others before it came here.
  communicator_.barrier();
  if (is_set(kStop) && !stopping_) save_and_end();
  stop_watch_.join();  // does not return where it ends the process
  collect();
  if (communicator_.rank() != 0 || checkpoint_steps(root_).empty()) return;
  write_finished(root_, {.step = copied_step_,
                         .iterations = settings_.run.iterations,
                         .max_wallclock_seconds = settings_.run.max_wallclock_seconds});
}

// False where the store is gone, with its rank: the next collective says so.
bool Checkpoints::is_set(const std::string& key) const {
  try {
    return store_ && store_->check({key});
  } catch (const std::exception&) {
    return false;
  }
}

void Checkpoints::save_and_end() {
  silence_other_threads();  // they would only report the ranks that have ended
  const bool saved = started_step_ == copied_step_ && error_.empty();
  if (!writer_.started() && !saved) start();
  if (writer_.started()) error_ = writer_.take().error;
  const auto code = error_.empty() ? ExitCode::stopped : ExitCode::io;
  if (communicator_.rank() != 0) {
    for (int poll = 0; poll < kPollsForRank0 && !is_set(kEnded); ++poll) {
      std::this_thread::sleep_for(kPoll);
    }
    end_process(code);
  }
  const int signal = stop_signal();
  const auto why =
      fmt::format("stopped by {}{} after step {}", signal == 0 ? "a signal" : signal_name(signal),
                  signal == 0 ? " to another rank" : "", copied_step_);
  const auto text =
      error_.empty()
          ? fmt::format("{}, state saved in {}; {}", why, checkpoint_folder(root_, copied_step_),
                        how_to_go_on_)
          : fmt::format(
                "{}, and its state could not be saved ({}); an earlier checkpoint, if there "
                "is one, is untouched",
                why, error_);
  end_process(Error(code, text), [this] {
    if (!store_) return;
    store_->set(kEnded, bytes_of("1"));
    std::this_thread::sleep_for(kOthersLeave);
  });
}

}  // namespace tg
