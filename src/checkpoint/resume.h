#pragma once
// How a run begins: at step 0 or at a checkpoint.
#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_manifest.h"
#include "checkpoint/saved_state.h"
#include "comm/communicator.h"
#include "config/fixed_settings.h"
#include "config/settings.h"
#include "data/token_source.h"
#include "process/machine.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

struct ResumePoint {
  std::string checkpoint;  // the checkpoint's folder
  Manifest manifest;
  bool same_run = true;       // in this run's OUTPUT_DIR, whose files are continued
  NamedTensors tensors = {};  // tensors of all files, until load_checkpoint()
};

struct Beginning {
  std::optional<ResumePoint> resume;  // absent: step 0
  bool finished = false;              // the run in OUTPUT_DIR has nothing left to do
};

// Finds where the run begins, by RESUME. Collective. Rank 0 looks for checkpoints under the lock of
// OutputDir, and every rank reads the one that it names: each rank loads what it has verified, and
// a disk that several ranks share is read once. The others wait for a rank as long as it makes
// progress, else for COMM_TIMEOUT_S. A checkpoint that any rank finds damaged is skipped with a
// warning by `auto`, and an error for a path. Throws Error: config if the checkpoint's run had
// other fixed settings; for a path missing_input, bad_data, io, or unavailable if another rank
// could not read it.
Beginning find_beginning(const Settings& settings, const Machine& machine,
                         const std::string& output_dir, Communicator& communicator);

// Sets SCHEDULE_ITERATIONS to the checkpoint's value unless it is given, so a resumed run keeps its
// schedule. Throws Error(bad_data).
void keep_schedule(const ResumePoint& point, RunConfig& run);

// Throws Error(config) unless the data are the checkpoint's. `identity`: data_identity().
// `train_tokens`: number of training tokens, if known; checkpoints of older programs store this
// number and the paths instead of an identity.
void require_same_data(const ResumePoint& point, const DataConfig& data, const FixedTexts& identity,
                       std::optional<std::int64_t> train_tokens);

// Sets aside the later checkpoints of the run in OUTPUT_DIR, whose steps will be trained again, and
// removes finished.json. Rank 0 calls it once the checkpoint is known to fit. Throws Error(io).
void go_back_to(const ResumePoint& point, const std::string& output_dir);

// Sets the state of rank `rank` of `world_size` to the checkpoint's, which any number of ranks may
// have saved, and frees point.tensors. Throws Error: bad_data; config if a tensor has another
// dtype.
void load_checkpoint(ResumePoint& point, SavedState& state, int rank = 0, int world_size = 1);

// Returns the identity of the training data and, with TOKENIZER_PATH, of the tokenizer, in the form
// of fixed_settings(), beside which a manifest stores it. Equal on every rank. Throws Error:
// missing_input, bad_data, io.
FixedTexts data_identity(const DataConfig& data, const TokenSource& training);

}  // namespace tg
