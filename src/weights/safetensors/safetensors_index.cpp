#include "weights/safetensors/safetensors_index.h"

#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/escaped.h"
#include "files/json_fields.h"
#include "files/json_file.h"
#include "weights/safetensors/safetensors.h"

namespace tg {

TensorsOfFiles read_safetensors_index(const std::string& path) {
  const auto index = read_json_file(path);
  const std::string field = "weight_map";
  const JsonFields map(JsonFields(index, path).get(field), path + ": " + field);
  TensorsOfFiles files;
  for (const auto& tensor : index[field].items()) {
    files[map.file_name(tensor.key())].insert(tensor.key());
  }
  REQUIRE(!files.empty(), ExitCode::bad_data, "{}: expected tensors in {}, found none", path,
          field);
  return files;
}

NamedTensors load_safetensors_index(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  NamedTensors all;
  for (auto& [file, expected] : read_safetensors_index(path)) {
    auto left = expected;
    auto tensors = load_safetensors(folder / file);
    for (const auto& [name, tensor] : tensors) {
      REQUIRE(left.erase(name) == 1, ExitCode::bad_data,
              "{}: has '{}', which {} does not list; the files belong to different models",
              (folder / file).string(), escaped(name), path);
    }
    REQUIRE(left.empty(), ExitCode::bad_data, "{}: lacks '{}', which {} expects there",
            (folder / file).string(), escaped(*left.begin()), path);
    std::move(tensors.begin(), tensors.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace tg
