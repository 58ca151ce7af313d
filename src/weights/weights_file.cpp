#include "weights/weights_file.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "base/escaped.h"
#include "files/byte_source.h"
#include "files/json_file.h"
#include "weights/foreign_weights.h"
#include "weights/pickle/torch_file.h"
#include "weights/safetensors/safetensors.h"
#include "weights/tensors/tensor_check.h"

namespace tg {
namespace {

// Returns `missing a, b; `, or an empty string without names.
std::string listed(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("{} {}; ", what, names_text(names));
}

// Loads the tensors of all files, which must be exactly the tensors in the index.
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

}  // namespace

WeightsFormat weights_format(const std::string& path) {
  const FileSource source(path);
  refuse_foreign_file(source);
  if (!source.holds(0, 4)) return WeightsFormat::safetensors;
  const std::string magic = source.read(0, 4);
  // The second is torch.save's legacy format, for which load_torch has its own error message. As a
  // safetensors header length, either would be tens of megabytes.
  if (magic == "PK\3\4" || magic == "\x80\x02\x8a\x0a") return WeightsFormat::torch;
  // A safetensors header of this length ('{' is 123) would have zeros after its first byte.
  const bool json = magic[0] == '{' && magic[1] != '\0' && magic[2] != '\0' && magic[3] != '\0';
  return json ? WeightsFormat::safetensors_index : WeightsFormat::safetensors;
}

StateDict load_weights(const std::string& path) {
  const auto format = weights_format(path);
  if (format == WeightsFormat::torch) return load_torch(path);
  if (format == WeightsFormat::safetensors_index) return {load_safetensors_index(path), {}, {}, {}};
  StateDict file;
  file.tensors = load_safetensors(path, &file.metadata);
  return file;
}

void copy_into(const NamedTensors& from, NamedTensors& into, const std::string& path,
               ExitCode misfit) {
  std::unordered_map<std::string_view, const at::Tensor*> found;
  std::unordered_set<std::string_view> expected;
  std::vector<std::string> missing, unexpected, misshapen, no_numbers;
  for (const auto& [name, tensor] : from) found.emplace(name, &tensor);
  for (const auto& [name, tensor] : into) {
    expected.insert(name);
    const auto match = found.find(name);
    if (match == found.end())
      missing.push_back(name);
    else if (match->second->sizes() != tensor.sizes())
      misshapen.push_back(fmt::format("{} (expected {}, found {})", name,
                                      shape_text(tensor.sizes()),
                                      shape_text(match->second->sizes())));
    else if (!match->second->is_floating_point())
      no_numbers.push_back(
          fmt::format("{} ({})", name, c10::toString(match->second->scalar_type())));
  }
  for (const auto& [name, tensor] : from)
    if (!expected.contains(name)) unexpected.push_back(escaped(name));

  const std::string misfits = listed("missing", missing) + listed("unexpected", unexpected) +
                              listed("other shapes:", misshapen) +
                              listed("no floating-point numbers:", no_numbers);
  REQUIRE(misfits.empty(), misfit,
          "{}: the weights do not fit the model: {}check the model's settings", path, misfits);
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : into) tensor.copy_(*found.at(name));
  if (const auto name = first_nonfinite(into)) {
    fail(ExitCode::internal,
         "{}: {} is not finite (expected finite numbers, found NaN or infinity); the model is not "
         "used and nothing is written. train_gpt inspect counts such numbers",
         path, *name);
  }
}

std::map<std::string, std::set<std::string>> read_safetensors_index(const std::string& path) {
  const auto index = read_json_file(path);
  const std::string field = "weight_map";
  const JsonFields map(JsonFields(index, path).get(field), path + ": " + field);
  std::map<std::string, std::set<std::string>> files;
  for (const auto& tensor : index[field].items())
    files[map.file_name(tensor.key())].insert(tensor.key());
  REQUIRE(!files.empty(), ExitCode::bad_data, "{}: expected tensors in {}, found none", path,
          field);
  return files;
}

}  // namespace tg
