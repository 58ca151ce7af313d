#pragma once
// Loads the model of INIT_FROM into a parameter table.
#include <optional>
#include <string>

#include "base/error.h"
#include "checkpoint/model_record.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "model/parameters.h"
#include "model_io/model_path.h"
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

}  // namespace tg
