#pragma once
#include <optional>
#include <string_view>

namespace tg {

enum class TextKind {
  plain,       // .txt
  json_lines,  // .jsonl: a JSON object a line
  json,        // .json: the same, or an array of objects
};

// By a file's name, behind which .gz, .zst or .xz may be; nothing: another name.
std::optional<TextKind> text_kind_named(std::string_view path);
bool is_json_named(std::string_view path);

}  // namespace tg
