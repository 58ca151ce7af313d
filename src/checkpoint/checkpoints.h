#pragma once
// When a run saves its state, and how it ends when it is told to stop.
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/host_snapshot.h"
#include "checkpoint/run_end.h"
#include "checkpoint/saved_state.h"
#include "comm/communicator.h"
#include "config/frozen_settings.h"
#include "config/settings.h"
#include "process/machine.h"
#include "run_log/report.h"

namespace tg {

// All ranks call each function for the same steps.
class Checkpoints {
 public:
  // `data`: data_identity(). `how_to_go_on`: what to do after a stop, for the user: "start the same
  // command again".
  Checkpoints(const Settings& settings, const Machine& machine, Communicator& communicator,
              const Store& store, const std::string& output_dir, const FrozenTexts& data,
              std::string how_to_go_on, Report& report);

  // Before the clock starts, at `elapsed_ms` of training time: allocates host memory, where
  // CHECKPOINT_EVERY asks for checkpoints.
  void begin(SavedState& state, double elapsed_ms);
  // Returns whether CHECKPOINT_EVERY requests a checkpoint after `step`; `elapsed_ms`: rank 0's
  // training time as all ranks know it.
  bool due(std::int64_t step, double elapsed_ms) const;
  // After a step was launched: begins to copy the state, calls `read_back`, which waits for the
  // step, and leaves the rest to the writer. Waits for an earlier checkpoint that is still being
  // written.
  void save(SavedState& state, double elapsed_ms, const std::function<void()>& read_back);
  // The end of the copies, for which changes of the state on the device must wait.
  const c10::Event& state_copied() const { return snapshot_.copied(); }
  // Reports a checkpoint that is written.
  void report_written();

  // Between two steps: saves the state and ends the process with `stopped`. Errors: io.
  [[noreturn]] void stop(SavedState& state);

  // The last step is done. From now on a signal to any rank ends the process as stop() does, with
  // the state as it is now. With CHECKPOINT_EVERY it is saved at once.
  void begin_evaluations(SavedState& state);
  // The run's results are complete: signals no longer stop it. Notes that the run is finished,
  // where it has checkpoints. Collective.
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
  ModelRecord copied_{.step = -1};  // of the state in the snapshot; step -1: none
  std::int64_t started_step_ = -1;  // the last that the writer was given
  std::string error_;               // of the last checkpoint written; empty: none
  double saved_at_ms_ = 0;          // training time at the last checkpoint
  double stall_ms_ = 0;             // of the last checkpoint
  RunEnd end_;                      // the last member: its thread uses the others
};

}  // namespace tg
