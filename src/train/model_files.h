#pragma once
// The model's weights on their way in and out of a run.
#include <string>

#include "config/settings.h"
#include "model/parameters.h"
#include "train/events.h"
#include "train/machine.h"

namespace tg {

// All parameters at their initial values: drawn from SEED, then INIT_FROM's where it is set.
// Errors: those of reading INIT_FROM; bad_data where names or shapes differ.
ParameterTable initial_weights(const Settings& settings, const Machine& machine);

// The parameters of the trained model in INIT_FROM, a raw one or an artifact; multi-token heads
// that it does not have are zero. Errors: missing_input, io, bad_data; config, naming the tensors
// that do not fit.
ParameterTable trained_weights(const Settings& settings, const Machine& machine);

// The same of a raw model, on `device`, with embedding tables in the dtype that the file has them
// in, as they were in its run: what an artifact records, whatever this machine computes in.
ParameterTable stored_weights(const Settings& settings, at::Device device);

// Before a model is written or scored as the final one. The same on every rank. Errors: internal,
// naming the first parameter with a value that is not finite.
void require_finite(const ParameterTable& table);

// Writes final_model.safetensors and final_model.pt to `dir`, without the multi-token heads.
// Errors: cannot_create, io.
ModelWritten write_model(const ParameterTable& table, const std::string& dir);

}  // namespace tg
