#pragma once
// Paths that name a model: INIT_FROM of runs and commands, and inspect's argument.
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"

namespace tg {

enum class ModelKind {
  file,               // a file of weights or an artifact
  checkpoint,         // the folder of a checkpoint
  newest_checkpoint,  // the newest valid checkpoint in a folder, to which a run may add
};

struct ModelPath {
  ModelKind kind;
  std::string path;  // the file or folder
  Artifact artifact = Artifact::none;
};

// Finds the model at `path`: a file; a checkpoint's folder; a run's folder, which stands for its
// final model or, without one or if `weights` is not automatic, for its newest checkpoint; a folder
// of checkpoints; or a folder that transformers wrote. Throws Error: missing_input if it is none of
// these or cannot be read; usage if `weights` is not automatic and the model has one set of
// weights; io.
ModelPath find_model(const std::string& path, WeightsChoice weights);

// Returns the path of the run's file `name`, config.json or metrics.jsonl, beside a weights file or
// a folder of checkpoints: for final_model.2.pt and checkpoints.2, which a later run of the same
// RUN_ID renamed, config.2.json.
std::string file_beside(const std::string& weights, const std::string& name);
// Returns file_beside() for a model of any kind: beside its file, or two levels up from a
// checkpoint.
std::string file_of_run(const ModelPath& model, const std::string& name);

// Throws Error(usage) if the model is an artifact.
void require_unquantized(const ModelPath& model);

// Sets INIT_FROM to the model that rank 0 finds, and logs it: every rank has the same model,
// although its run may continue meanwhile. The newest checkpoint is resolved when it is read.
// Collective. Throws what find_model() throws.
ModelPath choose_model(Settings& settings, Communicator& communicator);

}  // namespace tg
