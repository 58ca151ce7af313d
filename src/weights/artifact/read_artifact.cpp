#include "weights/artifact/read_artifact.h"

#include <utility>

#include "base/error.h"
#include "base/escaped.h"
#include "files/byte_source.h"
#include "files/compressed.h"
#include "weights/artifact/artifact_tensors.h"
#include "weights/artifact/gptq_value.h"
#include "weights/artifact/pergroup.h"
#include "weights/pickle/torch_file.h"

namespace tg {
namespace {

// Bytes of an archive other than its tensors: names, the pickle, the directory, padding.
constexpr size_t kMaxOverhead = 32 << 20;

NamedTensors read_int6(const PickleDict& all, ArtifactWeights weights, const std::string& path) {
  TensorDict stored(dict_in(all, "w", path), "w", path);
  for (const auto& [name, kind] : dict_in(all, "m", path).items) {
    const std::string where = fmt::format("{}: 'm' '{}'", path, escaped(name));
    if (const auto* text = std::get_if<std::string>(&kind)) {
      REQUIRE(*text == "passthrough" || *text == "passthrough_ctrl", ExitCode::bad_data,
              "{}: expected passthrough or passthrough_ctrl, found {}", where, escaped(*text));
      weights.add(name, stored.take_floating(name));
      continue;
    }
    const PickleValue* type = kind.as_dict(where).find("type");
    REQUIRE(type, ExitCode::bad_data, "{}: expected a 'type', found none", where);
    const std::string& type_text = type->as_string(where);
    REQUIRE(type_text == "int6" || type_text == "int8", ExitCode::bad_data,
            "{}: expected type int6 or int8, found {}", where, escaped(type_text));
    const at::Tensor q = stored.take(name + ".q");
    weights.add(name, QuantizedWeight{q, stored.take(name + ".scale")});
  }
  stored.expect_all_taken();
  return std::move(weights).take();
}

NamedTensors read_int8(const PickleDict& all, ArtifactWeights weights, const std::string& path) {
  const PickleValue* format = all.find("__quant_format__");
  REQUIRE(format, ExitCode::bad_data, "{}: expected '__quant_format__', found none", path);
  const std::string& text = format->as_string(path + ": '__quant_format__'");
  REQUIRE(text == "int8_clean_per_row_v1", ExitCode::bad_data,
          "{}: expected the format int8_clean_per_row_v1, found {}", path, escaped(text));
  TensorDict scales(dict_in(all, "scales", path), "scales", path);
  for (const auto& [name, q] : dict_in(all, "quantized", path).items)
    weights.add(
        name, QuantizedWeight{q.as_tensor(fmt::format("{}: 'quantized' '{}'", path, escaped(name))),
                              scales.take(name)});
  scales.expect_all_taken();
  const PickleDict& passthrough = dict_in(all, "passthrough", path);
  TensorDict stored(passthrough, "passthrough", path);
  for (const auto& [name, value] : passthrough.items) weights.add(name, stored.take_floating(name));
  return std::move(weights).take();
}

enum class Format { int6, int8, gptq };

struct Unpacked {
  Format format;
  PickleValue value;
};

Unpacked unpack_archive(std::string_view archive, const std::string& path) {
  PickleValue value = parse_torch_value(archive, path);
  const bool gptq = is_gptq_value(value.as_dict(path));
  return {gptq ? Format::gptq : Format::int6, std::move(value)};
}

Unpacked unpack(const std::string& path, size_t max_size, int64_t max_elements) {
  const FileSource file(path);
  REQUIRE(file.size() <= max_size, ExitCode::bad_data,
          "{}: expected at most {} bytes, found {}; check the model's settings", path, max_size,
          file.size());
  const std::string bytes = file.ByteSource::read(0, file.size());
  if (is_xz(bytes)) return unpack_archive(decompress_xz(bytes, max_size, path), path);
  if (is_pergroup(bytes))
    return {Format::gptq, unpack_pergroup(bytes, {max_size, max_elements}, path)};
  if (is_zlib(bytes))
    return {Format::int8, parse_torch_value(decompress_zlib(bytes, max_size, path), path)};
  REQUIRE(is_brotli_archive(bytes), ExitCode::bad_data,
          "{}: expected an artifact (int6: .xz; int8: zlib; gptq: .xz, brotli or per group), found "
          "none of them",
          path);
  return {Format::gptq, parse_torch_value(decompress_brotli(bytes, max_size, path), path)};
}

}  // namespace

bool is_brotli_archive(std::string_view begin) {
  constexpr std::string_view zip = "PK\3\4";
  return brotli_begin(begin, zip.size()) == zip;
}

NamedTensors read_artifact(const std::string& path, int64_t max_elements) {
  const auto [format, value] =
      unpack(path, static_cast<size_t>(max_elements) * sizeof(float) + kMaxOverhead, max_elements);
  const PickleDict& all = value.as_dict(path);
  const ArtifactWeights weights(path, max_elements);
  if (format == Format::gptq) return read_gptq(all, weights, path);
  return format == Format::int6 ? read_int6(all, weights, path) : read_int8(all, weights, path);
}

NamedTensors read_stored_artifact(const std::string& path, size_t max_bytes) {
  const auto [format, value] = unpack(path, max_bytes, static_cast<int64_t>(max_bytes));
  const PickleDict& all = value.as_dict(path);
  NamedTensors stored;
  const auto add = [&](const char* key, const char* suffix) {
    for (const auto& [name, tensor] : dict_in(all, key, path).items)
      stored.emplace_back(name + suffix, tensor.as_tensor(fmt::format("{}: '{}'", path, key)));
  };
  if (format == Format::int8) {
    add("quantized", ".q");
    add("scales", ".scale");
    add("passthrough", "");
  } else {
    add("w", "");
  }
  return stored;
}

}  // namespace tg
