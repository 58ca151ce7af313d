#include "checkpoint/checkpoint_manifest.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "files/byte_source.h"
#include "files/json_file.h"

namespace tg {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kFormat = 1;

constexpr size_t kPart = 4 << 20;  // bytes hashed at a time, while they are in the CPU cache

// A file that is hashed as it is read. Reads must be sequential, from the first byte on.
class HashedFile final : public ByteSource {
 public:
  explicit HashedFile(const std::string& path) : ByteSource(path), file_(path) {
    size_ = file_.size();
  }
  using ByteSource::read;
  void read(uint64_t offset, void* to, size_t count) const override {
    assert(offset == hashed_);
    auto* at = static_cast<char*>(to);
    while (count > 0) {
      const auto part = std::min(count, kPart);
      file_.read(hashed_, at, part);
      xxh3_.add(at, part);
      hashed_ += part;
      at += part;
      count -= part;
    }
  }
  // Returns the XXH3 of the bytes read so far.
  std::uint64_t xxh3() const { return xxh3_.value(); }

 private:
  const FileSource file_;
  mutable Xxh3 xxh3_;
  mutable uint64_t hashed_ = 0;
};

NamedTensors read_file(const HashedFile& file, const FileDigest& expected,
                       const NameFilter& wanted) {
  REQUIRE(file.size() == expected.bytes, ExitCode::bad_data, "{}: expected {} bytes, found {}",
          file.name(), expected.bytes, file.size());
  auto tensors = read_safetensors(file, nullptr, wanted);
  REQUIRE(file.xxh3() == expected.xxh3, ExitCode::bad_data,
          "{}: bytes have changed since it was written (expected XXH3 {:016x}, found {:016x})",
          file.name(), expected.xxh3, file.xxh3());
  return tensors;
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
    const auto where = path + ": a file";
    const auto name = JsonFields(file, where).file_name("name");
    manifest.files.push_back({name, digest_of_json(file, where)});
    REQUIRE(names.insert(name).second, ExitCode::bad_data, "{}: expected {} once, found it twice",
            path, name);
  }
  return manifest;
}

NamedTensors read_checkpoint(const std::string& folder, const Manifest& manifest,
                             const NameFilter& wanted) {
  std::deque<HashedFile> files;
  for (const auto& [name, digest] : manifest.files) {
    const auto path = folder + "/" + name;
    std::error_code ignored;
    REQUIRE(fs::is_regular_file(path, ignored), ExitCode::bad_data,
            "{}: expected a file of {} bytes, found none", path, digest.bytes);
    files.emplace_back(path);
  }
  NamedTensors all;
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto tensors = read_file(files[i], manifest.files[i].digest, wanted);
    std::ranges::move(tensors, std::back_inserter(all));
  }
  return all;
}

}  // namespace tg
