#pragma once
// Where a run begins: at step 0, or at a checkpoint.
#include <cstdint>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"
#include "store/checkpoint_manifest.h"
#include "store/named_tensors.h"
#include "train/run_state.h"

namespace tg {

struct ResumePoint {
  std::string checkpoint;  // its folder
  Manifest manifest;
  bool same_run = true;       // it lies in this run's OUTPUT_DIR, whose files go on
  NamedTensors tensors = {};  // all of its files', until load_checkpoint()
};

struct Beginning {
  std::optional<ResumePoint> resume;  // nothing: step 0
  bool finished = false;              // the run in OUTPUT_DIR has nothing left to do
};

// As RESUME says; collective. Rank 0 looks for checkpoints, under the lock of OutputDir, and every
// rank reads the one that it names: what it verifies is what it loads, and a disk that several
// ranks share is read once. The others wait for a rank as long as it makes progress, else for
// COMM_TIMEOUT_S. A checkpoint that any rank finds damaged is skipped with a warning by `auto` and
// an error for a path. Errors: config (the checkpoint's run had other frozen settings), and for a
// path missing_input, bad_data, io, or unavailable where it was another rank that could not read.
Beginning find_beginning(const Settings& settings, const std::string& output_dir,
                         Communicator& communicator);

// Requires the training tokens to be as many as the checkpoint's run had; nothing: their number is
// not known at the start. Errors: config.
void require_same_tokens(const ResumePoint& point, std::optional<std::int64_t> train_tokens);

// Sets the state to the checkpoint's, saved by any number of ranks, and frees the point's tensors.
// Errors: bad_data.
void load_checkpoint(ResumePoint& point, RunState& state);

}  // namespace tg
