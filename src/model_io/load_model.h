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

// `model`, INIT_FROM's and no artifact. A line says which model was chosen in a folder, which
// weights of a checkpoint, and what was taken off others' names. Errors: those of reading it.
StoredModel read_model(const Settings& settings, const ModelPath& model);

// Sets the table to these weights of `path`: of all parameters or of those that are exported; the
// matrices in banks or each by its own name, as in artifacts and for transformers. Errors: those of
// copy_into().
void load_into(const ParameterTable& table, const NamedTensors& from, const std::string& path,
               ExitCode misfit);

// Sets the table to the model of INIT_FROM, of any kind, which is the same on every rank
// (choose_model). A newest checkpoint is read by rank 0 for all ranks, since its run may remove it
// before another one has, and so is an artifact of GPTQ. → the stored record, rank 0's on every
// rank. Collective. Errors: those of find_model() and of reading it; `misfit`, naming the tensors
// that do not fit; internal (a weight that is not finite).
std::optional<ModelRecord> load_model(const ParameterTable& table, const Settings& settings,
                                      Communicator& communicator, ExitCode misfit);

// Rank 0's values on every rank, also of rows that are not `exported` unless these are left out.
// Collective.
void broadcast_weights(const ParameterTable& table, bool exported_alone,
                       Communicator& communicator);

}  // namespace tg
