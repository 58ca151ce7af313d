#include "weights/read_artifact.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "files/byte_source.h"
#include "files/compressed.h"
#include "ops/quantize/quantize.h"
#include "weights/tensor_check.h"
#include "weights/torch_file.h"

namespace tg {
namespace {

// What an archive holds besides its tensors: names, the pickle, the directory, padding.
constexpr size_t kMaxOverhead = 32 << 20;

const PickleDict& dict_in(const PickleDict& parent, std::string_view key, const std::string& path) {
  const PickleValue* value = parent.find(key);
  REQUIRE(value, ExitCode::bad_data, "{}: expected a dict '{}', found none", path, key);
  return value->as_dict(fmt::format("{}: '{}'", path, key));
}

// The tensors of a dict by name, of which each is to be taken.
class TensorsOf {
 public:
  TensorsOf(const PickleDict& dict, std::string key, const std::string& path)
      : where_(fmt::format("{}: '{}'", path, key)) {
    for (const auto& [name, value] : dict.items)
      tensors_.emplace(name, value.as_tensor(where(name)));
  }

  at::Tensor take(const std::string& name) {
    const auto found = tensors_.extract(name);
    REQUIRE(found, ExitCode::bad_data, "{}: expected a tensor, found none", where(name));
    return found.mapped();
  }
  at::Tensor take_floating(const std::string& name) {
    const at::Tensor tensor = take(name);
    REQUIRE(tensor.is_floating_point(), ExitCode::bad_data,
            "{}: expected floating-point numbers, found {}", where(name),
            c10::toString(tensor.scalar_type()));
    return tensor;
  }
  void expect_all_taken() const {
    REQUIRE(tensors_.empty(), ExitCode::bad_data, "{}: no part of an artifact",
            where(tensors_.begin()->first));
  }

 private:
  std::string where(const std::string& name) const {
    return fmt::format("{} '{}'", where_, escaped(name));
  }

  std::string where_;
  std::unordered_map<std::string, at::Tensor> tensors_;
};

// Counts before it makes fp32 of anything: tensors of a file may share their bytes.
class Weights {
 public:
  Weights(const std::string& path, int64_t max_elements)
      : path_(path), max_elements_(max_elements) {}

  void add(const std::string& name, const at::Tensor& tensor) {
    count(name, tensor);
    tensors_.emplace_back(name, tensor.to(at::kFloat).contiguous());
  }
  void add(const std::string& name, const QuantizedWeight& weight) {
    const auto& [q, scale] = weight;
    const bool fits =
        q.scalar_type() == at::kChar && scale.is_floating_point() &&
        (scale.dim() == 0 || (scale.dim() == 1 && q.dim() > 0 && scale.size(0) == q.size(0)));
    REQUIRE(fits, ExitCode::bad_data,
            "{}: '{}': expected int8 with a scale a row or one scale, found {} {} with {} {}",
            path_, escaped(name), c10::toString(q.scalar_type()), shape_text(q.sizes()),
            c10::toString(scale.scalar_type()), shape_text(scale.sizes()));
    count(name, q);
    tensors_.emplace_back(name, dequantize(weight));
  }
  NamedTensors take() && { return std::move(tensors_); }

 private:
  void count(const std::string& name, const at::Tensor& tensor) {
    REQUIRE(names_.insert(name).second, ExitCode::bad_data, "{}: '{}' appears twice", path_,
            escaped(name));
    REQUIRE(tensor.numel() <= max_elements_ - elements_, ExitCode::bad_data,
            "{}: expected at most the model's {} elements, found more; check the model's settings",
            path_, max_elements_);
    elements_ += tensor.numel();
  }

  const std::string& path_;
  int64_t max_elements_, elements_ = 0;
  std::unordered_set<std::string> names_;
  NamedTensors tensors_;
};

NamedTensors read_int6(const PickleDict& all, Weights weights, const std::string& path) {
  TensorsOf stored(dict_in(all, "w", path), "w", path);
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

NamedTensors read_int8(const PickleDict& all, Weights weights, const std::string& path) {
  const PickleValue* format = all.find("__quant_format__");
  REQUIRE(format, ExitCode::bad_data, "{}: expected '__quant_format__', found none", path);
  const std::string& text = format->as_string(path + ": '__quant_format__'");
  REQUIRE(text == "int8_clean_per_row_v1", ExitCode::bad_data,
          "{}: expected the format int8_clean_per_row_v1, found {}", path, escaped(text));
  TensorsOf scales(dict_in(all, "scales", path), "scales", path);
  for (const auto& [name, q] : dict_in(all, "quantized", path).items)
    weights.add(
        name, QuantizedWeight{q.as_tensor(fmt::format("{}: 'quantized' '{}'", path, escaped(name))),
                              scales.take(name)});
  scales.expect_all_taken();
  const PickleDict& passthrough = dict_in(all, "passthrough", path);
  TensorsOf stored(passthrough, "passthrough", path);
  for (const auto& [name, value] : passthrough.items) weights.add(name, stored.take_floating(name));
  return std::move(weights).take();
}

struct Unpacked {
  bool int6;  // else int8
  PickleValue value;
};

Unpacked unpack(const std::string& path, size_t max_size) {
  const FileSource file(path);
  REQUIRE(file.size() <= max_size, ExitCode::bad_data,
          "{}: expected at most {} bytes, found {}; check the model's settings", path, max_size,
          file.size());
  std::string bytes = file.ByteSource::read(0, file.size());
  const bool six = is_xz(bytes);
  REQUIRE(six || is_zlib(bytes), ExitCode::bad_data,
          "{}: expected an artifact (int6: .xz, int8: zlib), found neither", path);
  bytes = six ? decompress_xz(bytes, max_size, path) : decompress_zlib(bytes, max_size, path);
  return {six, parse_torch_value(bytes, path)};
}

}  // namespace

NamedTensors read_artifact(const std::string& path, int64_t max_elements) {
  const auto [int6, value] =
      unpack(path, static_cast<size_t>(max_elements) * sizeof(float) + kMaxOverhead);
  const PickleDict& all = value.as_dict(path);
  const Weights weights(path, max_elements);
  return int6 ? read_int6(all, weights, path) : read_int8(all, weights, path);
}

NamedTensors read_stored_artifact(const std::string& path, size_t max_bytes) {
  const auto [int6, value] = unpack(path, max_bytes);
  const PickleDict& all = value.as_dict(path);
  NamedTensors stored;
  const auto add = [&](const char* key, const char* suffix) {
    for (const auto& [name, tensor] : dict_in(all, key, path).items)
      stored.emplace_back(name + suffix, tensor.as_tensor(fmt::format("{}: '{}'", path, key)));
  };
  if (int6) {
    add("w", "");
  } else {
    add("quantized", ".q");
    add("scales", ".scale");
    add("passthrough", "");
  }
  return stored;
}

}  // namespace tg
