#pragma once
// The model of INIT_FROM, on its way into a parameter table.
#include <optional>
#include <string>

#include "base/error.h"
#include "checkpoint/model_record.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "model_io/model_path.h"
#include "weights/named_tensors.h"

namespace tg {

struct StoredModel {
  NamedTensors weights;               // by their bare names, on the CPU
  std::optional<ModelRecord> record;  // as stored with these very weights
};

// Reads `model`, INIT_FROM's and no artifact. A line says which model was chosen in a folder, which
// weights of a checkpoint, and what was taken off foreign names. Throws what reading it throws.
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

// Rank 0's values on every rank, also of rows that are not `exported` unless these are left out.
// Collective.
void broadcast_weights(const ParameterTable& table, bool exported_alone,
                       Communicator& communicator);

}  // namespace tg
