#pragma once
// Creates, loads and writes the model's weights.
#include <string>

#include "checkpoint/model_record.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "process/machine.h"
#include "recipes/recipe.h"
#include "run_log/events.h"

namespace tg {

// `spec`: model_spec() of the settings. INIT_FROM is a path for find_model(). Loading logs the
// model that was chosen in a folder, the weights that were chosen in a checkpoint, and the prefixes
// that were removed from foreign names.

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
