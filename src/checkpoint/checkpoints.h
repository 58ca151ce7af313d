#pragma once
// When a run saves its state, and how it exits on a stop signal.
#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/host_snapshot.h"
#include "checkpoint/run_end.h"
#include "checkpoint/saved_state.h"
#include "comm/communicator.h"
#include "config/fixed_settings.h"
#include "config/settings.h"
#include "process/machine.h"
#include "run_log/report.h"

namespace tg {

// All ranks call each function for the same steps.
class Checkpoints {
 public:
  // `data`: data_identity(). `how_to_go_on`: advice to the user after a stop, such as "start the
  // same command again".
  Checkpoints(const Settings& settings, const Machine& machine, Communicator& communicator,
              const Store& store, const std::string& output_dir, const FixedTexts& data,
              std::string how_to_go_on, Report& report);

  // Called before the clock starts, at `elapsed_ms` of training time: allocates host memory if
  // CHECKPOINT_EVERY requests checkpoints.
  void begin(SavedState& state, double elapsed_ms);
  // Returns whether CHECKPOINT_EVERY requests a checkpoint after `step`; `elapsed_ms`: rank 0's
  // training time, equal on all ranks.
  bool due(std::int64_t step, double elapsed_ms) const;
  // Called after a step was launched: enqueues the copies of the state, calls `read_back`, which
  // waits for the step, and starts the writer. Waits for an earlier checkpoint that is still being
  // written.
  void save(SavedState& state, double elapsed_ms, const std::function<void()>& read_back);
  // Event at the end of the copies; the device must wait for it before it changes the state.
  const c10::Event& state_copied() const { return snapshot_.copied(); }
  // Reports the checkpoint in flight if it is finished; does not block.
  void report_written() {
    if (writer_.started() && writer_.ended()) collect();
  }

  // Called between two steps: saves the state and exits with `stopped`, or with `io` if saving
  // fails.
  [[noreturn]] void stop(SavedState& state);

  // Called after the last step. From now on a signal to any rank exits as stop() does, with the
  // present state. With CHECKPOINT_EVERY the state is saved at once.
  void begin_evaluations(SavedState& state);
  // Called when the run's results are complete: signals no longer stop it. Writes finished.json if
  // the run has checkpoints. Collective.
  void finish();

 private:
  void copy(SavedState& state);
  void start();
  SavedCheckpoint take();
  void collect();
  [[noreturn]] void save_and_end();

  const Settings& settings_;
  Communicator& communicator_;
  const std::string root_, how_to_go_on_;
  Report& report_;
  HostSnapshot snapshot_;
  CheckpointWriter writer_;
  ModelRecord copied_{.step = -1};  // record of the snapshot's state; step -1: no snapshot
  std::int64_t started_step_ = -1;  // step of the last checkpoint started
  std::string error_;               // error of the last checkpoint; empty: it was saved
  double saved_at_ms_ = 0;          // training time at the last checkpoint
  double stall_ms_ = 0;             // training's wait for the last checkpoint
  RunEnd end_;                      // the last member: its thread uses the others
};

}  // namespace tg
