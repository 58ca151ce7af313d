#pragma once
// Creates, loads and writes the model's weights.
#include <optional>
#include <string>

#include "base/error.h"
#include "checkpoint/model_record.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "model_io/model_path.h"
#include "process/machine.h"
#include "recipes/recipe.h"
#include "run_log/events.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

struct StoredModel {
  NamedTensors weights;               // by unwrapped name, on the CPU
  std::optional<ModelRecord> record;  // the record stored with these weights
};

// Reads `model`, the model of INIT_FROM. Logs the checkpoint's folder and weights that were chosen,
// and the prefixes that were removed from foreign names. Precondition: it is not an artifact.
// Throws what reading it throws.
StoredModel read_model(const Settings& settings, const ModelPath& model);

// Sets the table to the weights of `path`: all parameters or the exported ones; matrices in banks
// or each by its own name, as in artifacts and for transformers. Throws what copy_into() throws.
void load_into(const ParameterTable& table, const NamedTensors& from, const std::string& path,
               ExitCode misfit);

// Sets the table to INIT_FROM's model, of any kind, equal on every rank (choose_model). Rank 0
// reads a newest checkpoint for all ranks, since its run may remove it before another rank has read
// it, and GPTQ's artifacts. Returns the stored record, rank 0's on every rank. Collective. Throws
// what find_model() and reading it throw; `misfit`, naming the tensors that do not fit;
// Error(internal) for a weight that is not finite.
std::optional<ModelRecord> load_model(const ParameterTable& table, const Settings& settings,
                                      Communicator& communicator, ExitCode misfit);

// Broadcasts rank 0's values of all parameters, or with `exported_alone` of the exported ones.
// Collective.
void broadcast_weights(const ParameterTable& table, bool exported_alone,
                       Communicator& communicator);

// `spec`: model_spec() of the settings. INIT_FROM is a path for find_model(). Loading logs what
// read_model() logs, and the model that was chosen in a folder.

// Returns all parameters, initialised from SEED.
ParameterTable drawn_weights(const ModelSpec& spec, const Settings& settings,
                             const Machine& machine);

// Returns drawn_weights(), overwritten by load_model() if INIT_FROM is set. Collective. Throws what
// load_model() throws; Error(bad_data) if names or shapes differ.
ParameterTable initial_weights(const ModelSpec& spec, const Settings& settings,
                               const Machine& machine, Communicator& communicator);

struct TrainedModel {
  ParameterTable parameters;
  ModelRecord record;  // inferred_record() if none is stored
};

// Loads the trained model in INIT_FROM; multi-token heads that it does not have are zero.
// Collective. Throws what load_model() throws; Error(config) naming the tensors that do not fit.
TrainedModel trained_model(const ModelSpec& spec, const Settings& settings, const Machine& machine,
                           Communicator& communicator);

// Loads a model that is no artifact on `device`, with embedding tables in the file's dtype, as in
// its run: an artifact stores these, whatever this machine computes in. Throws as trained_model()
// does, and Error(usage) for an artifact.
TrainedModel stored_model(const Settings& settings, at::Device device);

// Throws Error(internal), naming the parameter, if a value of the final model is not finite; on
// every rank. Called before the model is written or scored.
void require_finite(const ParameterTable& table);

// Writes final_model.safetensors and final_model.pt to `dir`, each with the record, without the
// multi-token heads. Throws Error: cannot_create, io.
ModelWritten write_model(const ParameterTable& table, const ModelRecord& record,
                         const std::string& dir);

}  // namespace tg
