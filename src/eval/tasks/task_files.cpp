#include "eval/tasks/task_files.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/escaped.h"
#include "files/file.h"
#include "text/text_lines.h"

namespace tg {
namespace {

using nlohmann::json;

constexpr std::int64_t largest_file = std::int64_t{1} << 30;

// A file's lines as JSON objects.
class JsonObjects {
 public:
  // `expected`: what every line must have, for messages.
  JsonObjects(const std::string& path, const char* expected)
      : path_(path),
        expected_(expected),
        bytes_(read_whole_file(path, largest_file)),
        lines_(bytes_) {}

  // Reads the next non-empty line; returns false after the last.
  bool next() {
    for (auto line = lines_.next(); line; line = lines_.next()) {
      line_ = line->number;
      if (line->text.empty()) continue;
      object_ = json::parse(line->text, nullptr, /*allow_exceptions=*/false);
      if (object_.is_discarded()) refuse("no JSON");
      if (!object_.is_object()) refuse(fmt::format("JSON {}", object_.type_name()));
      return true;
    }
    return false;
  }
  std::int64_t line() const { return line_; }
  // The line's member `name`.
  const json& member(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) refuse(fmt::format("no \"{}\"", name));
    return *found;
  }
  std::string text(const char* name) const {
    const auto& value = member(name);
    if (!value.is_string()) refuse(fmt::format("a \"{}\" that is {}", name, value.type_name()));
    return value.get<std::string>();
  }
  [[noreturn]] void refuse(const std::string& found) const {
    fail(ExitCode::bad_data, "{} line {}: expected a JSON object with {}, found {}", path_, line_,
         expected_, found);
  }
  template <class Examples>
  Examples required(Examples examples) const {
    REQUIRE(!examples.empty(), ExitCode::bad_data,
            "{} has no examples (expected lines of JSON objects with {}, found {} bytes)", path_,
            expected_, bytes_.size());
    return examples;
  }

 private:
  const std::string& path_;
  const char* expected_;
  std::string bytes_;
  TextLines lines_;
  std::int64_t line_ = 0;
  json object_;
};

// The label from a number or its text; nullopt for other values.
std::optional<std::size_t> label_of(const json& value) {
  for (std::size_t label = 0; label < 4; ++label)
    if (value == label || value == std::to_string(label)) return label;
  return {};
}

}  // namespace

std::vector<HellaSwagExample> read_hellaswag(const std::string& path) {
  JsonObjects lines(path, "a string \"ctx\", 4 strings \"endings\" and a \"label\" from 0 to 3");
  std::vector<HellaSwagExample> examples;
  while (lines.next()) {
    HellaSwagExample example{
        .line = lines.line(), .context = lines.text("ctx"), .endings = {}, .label = 0};
    const auto& endings = lines.member("endings");
    if (!endings.is_array())
      lines.refuse(fmt::format("\"endings\" that are {}", endings.type_name()));
    if (endings.size() != 4) lines.refuse(fmt::format("{} \"endings\"", endings.size()));
    for (std::size_t i = 0; i < 4; ++i) {
      if (!endings[i].is_string())
        lines.refuse(fmt::format("an ending that is {}", endings[i].type_name()));
      example.endings[i] = endings[i].get<std::string>();
    }
    const auto label = label_of(lines.member("label"));
    if (!label) lines.refuse(fmt::format("\"label\" {}", escaped(lines.member("label").dump())));
    example.label = *label;
    examples.push_back(std::move(example));
  }
  return lines.required(std::move(examples));
}

std::vector<LambadaExample> read_lambada(const std::string& path) {
  JsonObjects lines(path, "a string \"text\" of several words");
  std::vector<LambadaExample> examples;
  while (lines.next()) {
    const auto text = lines.text("text");
    const auto space = text.rfind(' ');
    if (space == std::string::npos) lines.refuse("a text without a space");
    if (space + 1 == text.size()) lines.refuse("a text that ends with a space");
    examples.push_back({lines.line(), text.substr(0, space), text.substr(space)});
  }
  return lines.required(std::move(examples));
}

}  // namespace tg
