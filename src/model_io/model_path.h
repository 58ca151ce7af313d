#pragma once
// A model as people name it: INIT_FROM of a run and of the commands, and inspect's argument.
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"

namespace tg {

enum class ModelKind {
  file,               // of weights, or an artifact
  checkpoint,         // the folder of one
  newest_checkpoint,  // the newest valid one in a folder of checkpoints, to which a run may add
};

struct ModelPath {
  ModelKind kind;
  std::string path;  // the file, or that folder
  Artifact artifact = Artifact::none;
};

// `path` is a file; a checkpoint's folder; a run's folder, which stands for its final model or,
// without one or where `weights` chooses, for its newest checkpoint; a folder of checkpoints; or a
// folder that transformers wrote. Errors: missing_input (none of these, or it cannot be read);
// usage (`weights` chooses where there is one set of weights); io.
ModelPath find_model(const std::string& path, WeightsChoice weights);

// The path of its run's file `name`, config.json or metrics.jsonl, beside a weights file or a
// folder of checkpoints: of final_model.2.pt and checkpoints.2, which a later run of the same
// RUN_ID numbered aside, it is config.2.json.
std::string file_beside(const std::string& weights, const std::string& name);
// Returns a file of the run of a model of any kind: beside its file, or two levels up from a
// checkpoint.
std::string file_of_run(const ModelPath& model, const std::string& name);

// Errors: usage (an artifact).
void require_unquantized(const ModelPath& model);

// Sets INIT_FROM to the model that it stands for, as rank 0 finds it, with a line: every rank has
// the same model, though a run may go on meanwhile. The newest checkpoint is found when it is read.
// Collective. Throws what find_model() throws.
ModelPath choose_model(Settings& settings, Communicator& communicator);

}  // namespace tg
