#pragma once
// Where a model's record is stored, and what stands for it where there is none.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/model_record.h"
#include "config/settings.h"
#include "model/plan.h"
#include "model_io/model_path.h"

namespace tg {

// Writes FILE.record.json for a .pt or an artifact that is complete → its bytes, which a submission
// counts. Errors: cannot_create, io.
std::uint64_t write_record_beside(const std::string& file, const ModelRecord& record);

// The record of a model's file, whose safetensors metadata are `metadata`; nothing where none is
// stored. One beside the file that is another file's is left out with a warning. Errors: bad_data,
// io.
std::optional<ModelRecord> stored_record(const std::string& file,
                                         const std::map<std::string, std::string>& metadata);

// What a file without a record is taken to be: its step, stage and QAT by the metrics.jsonl of its
// run; where that cannot be read, in the last stage, with QAT as the settings begin. A line says so
// where it matters.
ModelRecord inferred_record(const Settings& settings, const Plan& plan, const ModelPath& model);

// The stage in which a command computes with the model: the recorded one, or stage 0 where no later
// one ever begins. Errors: config (one that the plan does not have).
std::int64_t stage_to_compute(const Plan& plan, const ModelRecord& record);

}  // namespace tg
