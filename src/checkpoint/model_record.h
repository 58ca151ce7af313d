#pragma once
// The record of a trained model: facts that its weights do not tell. It is stored with them:
//   safetensors   an entry kRecordKey of __metadata__
//   checkpoint    "model" in manifest.json
//   transformers  an object kRecordKey in config.json
//   .pt, artifact FILE.record.json beside it, with the digest of FILE: these formats are kept
//                 byte-identical to the reference implementation's
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

struct ModelRecord {
  std::string recipe{};    // value of RECIPE
  std::int64_t stage = 0;  // index in Plan::stages of the last step's pass
  bool qat = false;        // quantisation-aware training had begun
  std::int64_t step = 0;   // training steps of the weights
  bool operator==(const ModelRecord&) const = default;
};

inline constexpr const char* kRecordKey = "train_gpt";

nlohmann::json record_json(const ModelRecord& record);
// Throws Error(bad_data), beginning with `where`, if a field is missing or has another type.
ModelRecord record_of_json(const nlohmann::json& value, const std::string& where);
// Returns record_json() as text, for safetensors' metadata and for broadcasts.
std::string record_text(const ModelRecord& record);
ModelRecord record_of_text(const std::string& text, const std::string& where);

}  // namespace tg
