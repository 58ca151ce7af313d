#pragma once
// Reads and writes a model's record, and infers a missing one.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/model_record.h"
#include "config/settings.h"
#include "model/plan.h"
#include "model_io/model_path.h"

namespace tg {

// Writes FILE.record.json for a complete .pt file or artifact. Returns its size in bytes, which
// counts for a submission. Throws Error: cannot_create, io.
std::uint64_t write_record_beside(const std::string& file, const ModelRecord& record);

// Returns the record of a model's file, whose safetensors metadata are `metadata`; nothing if none
// is stored. Ignores, with a warning, a FILE.record.json whose digest is another file's. Throws
// Error: bad_data, io.
std::optional<ModelRecord> stored_record(const std::string& file,
                                         const std::map<std::string, std::string>& metadata);

// Infers the record of a file without one: step, stage and QAT from its run's metrics.jsonl; if
// that cannot be read, the last stage, and QAT as at the start of training. Logs that if the stage
// or QAT affects computation.
ModelRecord inferred_record(const Settings& settings, const Plan& plan, const ModelPath& model);

// Returns the stage in which a command computes with the model: the recorded stage, or 0 if no
// later stage ever begins. Throws Error(config) if the plan lacks the recorded stage.
std::int64_t stage_to_compute(const Plan& plan, const ModelRecord& record);

}  // namespace tg
