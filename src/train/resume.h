#pragma once
// Where a run begins: at step 0, or at a checkpoint.
#include <cstdint>
#include <optional>
#include <string>

#include "comm/rendezvous.h"
#include "config/settings.h"
#include "store/checkpoint_manifest.h"
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
Beginning find_beginning(const Settings& settings, const std::string& output_dir,
                         const Rendezvous& rendezvous, const LaunchInfo& launch);

// Requires the training tokens to be as many as the checkpoint's run had; nothing: their number is
// not known at the start. Errors: config.
void require_same_tokens(const ResumePoint& point, std::optional<std::int64_t> train_tokens);

// Sets the state to the checkpoint's, saved by any number of ranks. Errors: bad_data, io,
// missing_input.
void load_checkpoint(const ResumePoint& point, RunState& state);

}  // namespace tg
