#pragma once
// Where a run begins: at step 0, or at a checkpoint.
#include <cstdint>
#include <optional>
#include <string>

#include "comm/rendezvous.h"
#include "config/frozen_settings.h"
#include "config/settings.h"
#include "store/checkpoint_manifest.h"
#include "train/machine.h"
#include "train/run_state.h"

namespace tg {

struct ResumePoint {
  std::string checkpoint;  // its folder
  Manifest manifest;
  bool same_run = true;  // it lies in this run's OUTPUT_DIR, whose files go on
};

struct Beginning {
  std::optional<ResumePoint> resume;  // nothing: step 0
  bool finished = false;              // the run in OUTPUT_DIR has nothing left to do
};

// As RESUME says. Rank 0 looks and verifies, under the lock of OutputDir; a damaged checkpoint is
// skipped with a warning by `auto` and an error for a path. Errors: config (the checkpoint's run
// had other frozen settings), and for a path missing_input, bad_data, io.
Beginning find_beginning(const Settings& settings, const Machine& machine,
                         const std::string& output_dir, const Rendezvous& rendezvous,
                         const LaunchInfo& launch);

// Requires the data to be what the checkpoint's run had. `identity`: data_identity().
// `train_tokens`: how many there are, where that is known; with the paths it is what checkpoints of
// older programs know. Errors: config.
void require_same_data(const ResumePoint& point, const DataConfig& data,
                       const FrozenTexts& identity, std::optional<std::int64_t> train_tokens);

// Sets aside what the run in OUTPUT_DIR did behind its checkpoint, and will do again; for rank 0,
// once the checkpoint is known to fit. Errors: io.
void go_back_to(const ResumePoint& point, const std::string& output_dir);

// Sets the state to the checkpoint's, saved by any number of ranks. Errors: bad_data, io,
// missing_input.
void load_checkpoint(const ResumePoint& point, RunState& state);

}  // namespace tg
