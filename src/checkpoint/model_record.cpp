#include "checkpoint/model_record.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "files/json_file.h"

namespace tg {

using nlohmann::json;

json record_json(const ModelRecord& record) {
  return {{"recipe", record.recipe},
          {"stage", record.stage},
          {"qat", record.qat},
          {"step", record.step}};
}

ModelRecord record_of_json(const json& value, const std::string& where) {
  const JsonFields fields(value, where);
  ModelRecord record{.recipe = fields.text("recipe"),
                     .stage = fields.count("stage"),
                     .step = fields.count("step")};
  fields.require(fields.get("qat").is_boolean(), "qat", "true or false");
  record.qat = fields.get("qat");
  return record;
}

std::string record_text(const ModelRecord& record) {
  return json_text(record_json(record), /*indent=*/-1);
}

ModelRecord record_of_text(const std::string& text, const std::string& where) {
  const auto value = parse_json(text);
  REQUIRE(value && value->is_object(), ExitCode::bad_data,
          "{}: expected the record of a model, a JSON object, found something else", where);
  return record_of_json(*value, where);
}

}  // namespace tg
