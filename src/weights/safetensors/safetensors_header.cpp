#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>

#include "base/error.h"
#include "weights/safetensors/safetensors.h"
#include "weights/tensors/dtype_names.h"
#include "weights/tensors/tensor_check.h"

namespace tg {
namespace {

// Handler of nlohmann's SAX events, without a stack. Its state is the depth (1: names, 2: a
// tensor's fields, 3: a field's list) and the last key of each depth; any value that is invalid
// there throws, so the depth never exceeds 3.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderEvents(const std::string& file, SafetensorsHeader& header) : file_(file), header_(header) {}

  bool start_object(size_t) override {
    if (depth_ == 2 || depth_ == 3) refuse("an object");
    ++depth_;
    if (depth_ == 2 && !in_metadata_) fields_.clear();
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && !in_metadata_)
      for (const char* field : {"dtype", "shape", "data_offsets"})
        if (!fields_.count(field)) bad_tensor("lacks {}", field);
    --depth_;
    in_metadata_ = false;
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) {
      if (!names_.insert(text).second) bad("the name '{}' appears twice", escaped(text));
      in_metadata_ = text == "__metadata__";
      if (!in_metadata_) header_.entries.emplace_back().name = text;
      return true;
    }
    field_ = text;
    if (!in_metadata_ && field_ != "dtype" && field_ != "shape" && field_ != "data_offsets")
      bad_tensor("has the field '{}', expected dtype, shape and data_offsets", escaped(text));
    if (!fields_.insert(in_metadata_ ? "__metadata__ " + field_ : field_).second)
      bad_tensor("has the field '{}' twice", escaped(text));
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata_) {
      header_.metadata.emplace(field_, text);
    } else if (depth_ == 2 && field_ == "dtype") {
      const auto* const names = find_dtype(&DtypeNames::safetensors, std::string_view(text));
      if (!names)
        bad_tensor("has dtype '{}', expected one of {}", escaped(text),
                   fmt::join(kDtypes | std::views::transform(&DtypeNames::safetensors), ", "));
      entry().dtype = names->dtype;
    } else {
      refuse("a string");
    }
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || field_ == "dtype") refuse("a list");
    ++depth_;
    offsets_ = 0;
    return true;
  }
  bool end_array() override {
    --depth_;
    if (field_ == "data_offsets" && offsets_ != 2)
      bad_tensor("has {} data_offsets, expected 2", offsets_);
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (depth_ != 3) refuse("a number");
    if (value > std::numeric_limits<int64_t>::max()) refuse("a number beyond 2^63");
    if (field_ == "shape") {
      if (entry().shape.size() == kMaxDims) bad_tensor("has more than {} dimensions", kMaxDims);
      entry().shape.push_back(static_cast<int64_t>(value));
    } else if (++offsets_ <= 2) {
      (offsets_ == 1 ? entry().begin : entry().end) = value;
    }
    return true;
  }
  bool number_integer(int64_t) override { refuse("a negative number"); }
  bool number_float(double, const std::string&) override { refuse("a fraction"); }
  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("true or false"); }
  bool binary(nlohmann::json::binary_t&) override { refuse("binary data"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    bad("is no valid JSON at byte {}", at);
  }

 private:
  SafetensorsEntry& entry() { return header_.entries.back(); }

  template <typename... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) {
    fail(ExitCode::bad_data, "{}: the safetensors header: {}", file_,
         fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void bad_tensor(fmt::format_string<Args...> format, Args&&... args) {
    bad("'{}' {}", in_metadata_ ? "__metadata__" : escaped(entry().name),
        fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse(std::string_view found) {
    if (depth_ == 0) bad("expected an object, found {}", found);
    if (depth_ == 1) bad_tensor("is {}, expected an object", found);
    bad_tensor("has {} in '{}'", found, escaped(field_));
  }

  const std::string& file_;
  SafetensorsHeader& header_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string field_;
  std::set<std::string> names_, fields_;
  size_t offsets_ = 0;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file) {
  SafetensorsHeader header;
  HeaderEvents events(file, header);
  nlohmann::json::sax_parse(json.begin(), json.end(), &events);
  return header;
}

}  // namespace tg
