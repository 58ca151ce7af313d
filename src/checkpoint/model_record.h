#pragma once
// The record of a trained model: what its weights do not say. It is stored with them, so that
// nobody concludes it from the files of the run:
//   safetensors   an entry kRecordKey of __metadata__
//   checkpoint    "model" in manifest.json
//   transformers  an object kRecordKey in config.json
//   .pt, artifact FILE.record.json beside it, with the digest of FILE: these formats are the
//                 reference implementation's, and stay byte for byte as it writes them
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace tg {

struct ModelPath;
struct Settings;

struct ModelRecord {
  std::string recipe{};    // RECIPE's word, as recipe_of() resolved it
  std::int64_t stage = 0;  // index in Plan::stages of the pass that the last step computed
  bool qat = false;        // quantisation-aware training had begun
  std::int64_t step = 0;   // steps that the weights were trained for
  bool operator==(const ModelRecord&) const = default;
};

inline constexpr const char* kRecordKey = "train_gpt";

nlohmann::json record_json(const ModelRecord& record);
// Errors: bad_data, beginning with `where` (a field is missing or has another type).
ModelRecord record_of_json(const nlohmann::json& value, const std::string& where);
// record_json() as text, for safetensors' metadata and for other ranks.
std::string record_text(const ModelRecord& record);
ModelRecord record_of_text(const std::string& text, const std::string& where);

// FILE.record.json.
std::string record_path(const std::string& file);
// Writes it for a .pt or an artifact that is complete → its bytes, which a submission counts.
// Errors: cannot_create, io.
std::uint64_t write_record_beside(const std::string& file, const ModelRecord& record);

// The record of a model's file, whose safetensors metadata are `metadata`; nothing where none is
// stored. One beside the file that is another file's is left out with a warning. Errors: bad_data,
// io.
std::optional<ModelRecord> stored_record(const std::string& file,
                                         const std::map<std::string, std::string>& metadata);

// What a file without a record is taken to be: its step, stage and QAT by the metrics.jsonl of its
// run; where that cannot be read, in the last stage, with QAT as the settings begin. A line says so
// where it matters.
ModelRecord inferred_record(const Settings& settings, const ModelPath& model);

// The stage in which a command computes with the model: the recorded one, or stage 0 where the
// settings have no recurrence or say that it never begins.
std::int64_t stage_to_compute(const Settings& settings, const ModelRecord& record);

}  // namespace tg
