#include "report/run_record.h"

#include <map>

#include "files/json_fields.h"
#include "files/json_file.h"

namespace tg {

using nlohmann::json;

json read_run_config(const RunPath& path) {
  json run = {{"path", path.metrics}};
  const json config = read_json_file(path.config);
  const JsonFields fields(config, path.config);
  for (const auto* name : {"settings", "origins"}) {
    fields.require(fields.get(name).is_object(), name, "an object");
    run[name] = config[name];
  }
  for (const auto* name : {"versions", "device"}) run[name] = fields.text(name);
  const auto id = run["settings"].find("RUN_ID");
  run["name"] = id != run["settings"].end() && id->is_string() ? *id : json("run");
  return run;
}

void tell_apart(json& runs) {
  std::map<std::string, int> count;
  for (const auto& run : runs) ++count[run["name"]];
  for (auto& run : runs) {
    if (count[run["name"]] > 1) run["name"] = run["path"];
  }
}

}  // namespace tg
