#include "checkpoint/checkpoint_manifest.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "files/json_fields.h"
#include "files/json_file.h"

namespace tg {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kFormat = 1;

CheckpointFile file_from(const json& value, const std::string& where) {
  return {JsonFields(value, where).file_name("name"), digest_of_json(value, where)};
}

}  // namespace

void write_manifest(const std::string& folder, const Manifest& manifest) {
  json files = json::array();
  for (const auto& [name, digest] : manifest.files) {
    files.push_back(digest_json(digest));
    files.back()["name"] = name;
  }
  json value = {{"format", kFormat},
                {"step", manifest.step},
                {"world_size", manifest.world_size},
                {"program", manifest.program},
                {"settings", manifest.settings},
                {"files", files}};
  if (manifest.model) value["model"] = record_json(*manifest.model);
  write_json_file(folder + "/manifest.json", value);
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  std::error_code ignored;
  REQUIRE(fs::status(path, ignored).type() != fs::file_type::not_found, ExitCode::missing_input,
          "{}: expected a checkpoint, a folder with a manifest.json, found none", folder);
  const json value = read_json_file(path);
  const JsonFields fields(value, path);
  fields.require(fields.count("format") == kFormat, "format", "1; use the program that wrote it");
  Manifest manifest{.step = fields.count("step"),
                    .world_size = fields.count("world_size"),
                    .program = fields.text("program")};
  fields.require(manifest.world_size > 0, "world_size", "at least 1");
  if (const auto model = value.find("model"); model != value.end())
    manifest.model = record_of_json(*model, path + ": \"model\"");
  const JsonFields settings(fields.get("settings"), path + ": \"settings\"");
  for (const auto& setting : fields.get("settings").items())
    manifest.settings[setting.key()] = settings.text(setting.key());
  fields.require(fields.get("files").is_array(), "files", "a list");
  std::set<std::string> names;
  for (const auto& file : fields.get("files")) {
    manifest.files.push_back(file_from(file, path + ": a file"));
    const auto& name = manifest.files.back().name;
    REQUIRE(names.insert(name).second, ExitCode::bad_data, "{}: expected {} once, found it twice",
            path, name);
  }
  return manifest;
}

}  // namespace tg
