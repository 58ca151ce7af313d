#include "checkpoint/checkpoint_manifest.h"

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "files/json_fields.h"
#include "files/json_file.h"

namespace tg {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kFormat = 1;

std::optional<std::uint64_t> from_hex(const std::string& digits) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != 16 || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

CheckpointFile file_from(const json& value, const std::string& where) {
  const JsonFields fields(value, where);
  CheckpointFile file{fields.file_name("name"), {}};
  file.digest.bytes = static_cast<std::uint64_t>(fields.count("bytes"));
  const auto xxh3 = from_hex(fields.text("xxh3"));
  fields.require(xxh3.has_value(), "xxh3", "16 hexadecimal digits");
  file.digest.xxh3 = *xxh3;
  return file;
}

}  // namespace

void write_manifest(const std::string& folder, const Manifest& manifest) {
  json files = json::array();
  for (const auto& [name, digest] : manifest.files) {
    files.push_back(
        {{"name", name}, {"bytes", digest.bytes}, {"xxh3", fmt::format("{:016x}", digest.xxh3)}});
  }
  write_json_file(folder + "/manifest.json", {{"format", kFormat},
                                              {"step", manifest.step},
                                              {"world_size", manifest.world_size},
                                              {"program", manifest.program},
                                              {"settings", manifest.settings},
                                              {"files", files}});
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  std::error_code ignored;
  REQUIRE(fs::status(path, ignored).type() != fs::file_type::not_found, ExitCode::missing_input,
          "{}: expected a checkpoint, a folder with a manifest.json, found none", folder);
  const json value = read_json_file(path);
  const JsonFields fields(value, path);
  fields.require(fields.count("format") == kFormat, "format", "1; use the program that wrote it");
  Manifest manifest{
      fields.count("step"), fields.count("world_size"), fields.text("program"), {}, {}};
  fields.require(manifest.world_size > 0, "world_size", "at least 1");
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
