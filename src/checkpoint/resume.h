#pragma once
// Where a run begins: at step 0, or at a checkpoint.
#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_manifest.h"
#include "checkpoint/saved_state.h"
#include "comm/communicator.h"
#include "config/frozen_settings.h"
#include "config/settings.h"
#include "process/machine.h"
#include "weights/named_tensors.h"

namespace tg {

struct ResumePoint {
  std::string checkpoint;  // its folder
  Manifest manifest;
  bool same_run = true;       // it is in this run's OUTPUT_DIR, whose files go on
  NamedTensors tensors = {};  // all of its files', until load_checkpoint()
};

struct Beginning {
  std::optional<ResumePoint> resume;  // nothing: step 0
  bool finished = false;              // the run in OUTPUT_DIR has nothing left to do
};

// Begins a run as RESUME says; collective. Rank 0 looks for checkpoints under the lock of
// OutputDir, and every rank reads the one that it names: each rank loads what it has verified, and
// a disk that several ranks share is read once. The others wait for a rank as long as it makes
// progress, else for COMM_TIMEOUT_S. A checkpoint that any rank finds damaged is skipped with a
// warning by `auto`, and an error for a path. Throws Error: config if the checkpoint's run had
// other fixed settings; for a path missing_input, bad_data, io, or unavailable if another rank
// could not read it.
Beginning find_beginning(const Settings& settings, const Machine& machine,
                         const std::string& output_dir, Communicator& communicator);

// A run that goes on keeps the schedule that it began with: SCHEDULE_ITERATIONS is the
// checkpoint's, where it is not given. For the settings that the run goes on with.
void keep_schedule(const ResumePoint& point, RunConfig& run);

// Requires the data to be what the checkpoint's run had. `identity`: data_identity().
// `train_tokens`: how many there are, where that is known; with the paths it is what checkpoints of
// older programs know. Errors: config.
void require_same_data(const ResumePoint& point, const DataConfig& data,
                       const FrozenTexts& identity, std::optional<std::int64_t> train_tokens);

// Sets aside what the run in OUTPUT_DIR did behind its checkpoint, and will do again; for rank 0,
// once the checkpoint is known to fit. Errors: io.
void go_back_to(const ResumePoint& point, const std::string& output_dir);

// Sets the state of rank `rank` of `world_size` to the checkpoint's, saved by any number of ranks,
// and frees the point's tensors. Errors: bad_data.
void load_checkpoint(ResumePoint& point, SavedState& state, int rank = 0, int world_size = 1);

}  // namespace tg
