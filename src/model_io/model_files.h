#pragma once
// The model's weights on their way in and out of a run.
#include <string>

#include "checkpoint/model_record.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "process/machine.h"
#include "recipes/recipe.h"
#include "run_log/events.h"

namespace tg {

// `spec`: model_spec() of the settings. INIT_FROM is a model as find_model() takes it; a line says
// which one was chosen in a folder, which of a checkpoint's weights, and what was taken off the
// names of others' files.

// All parameters as they are drawn from SEED.
ParameterTable drawn_weights(const ModelSpec& spec, const Settings& settings,
                             const Machine& machine);

// Initial parameters, then INIT_FROM's if it is set, by load_model(). Collective. Throws what
// load_model() throws; Error(bad_data) if names or shapes differ.
ParameterTable initial_weights(const ModelSpec& spec, const Settings& settings,
                               const Machine& machine, Communicator& communicator);

struct TrainedModel {
  ParameterTable parameters;
  ModelRecord record;  // inferred_record() where none is stored
};

// Loads the trained model in INIT_FROM; multi-token heads that it does not have are zero.
// Collective. Throws what load_model() throws; Error(config) naming the tensors that do not fit.
TrainedModel trained_model(const ModelSpec& spec, const Settings& settings, const Machine& machine,
                           Communicator& communicator);

// Loads a model that is no artifact on `device`, with embedding tables in the file's dtype, as in
// its run: an artifact stores these, whatever this machine computes in. Throws as trained_model()
// does, and Error(usage) for an artifact.
TrainedModel stored_model(const Settings& settings, at::Device device);

// Before a model is written or scored as the final one. The same on every rank. Errors: internal,
// naming the first parameter with a value that is not finite.
void require_finite(const ParameterTable& table);

// Writes final_model.safetensors and final_model.pt to `dir`, without the multi-token heads, each
// with the record. Errors: cannot_create, io.
ModelWritten write_model(const ParameterTable& table, const ModelRecord& record,
                         const std::string& dir);

}  // namespace tg
