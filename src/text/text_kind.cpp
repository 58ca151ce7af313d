#include "text/text_kind.h"

#include "files/unpacked_file.h"

namespace tg {

std::optional<TextKind> text_kind_named(std::string_view path) {
  path = without_compression(path);
  if (path.ends_with(".txt")) return TextKind::plain;
  if (path.ends_with(".jsonl")) return TextKind::json_lines;
  if (path.ends_with(".json")) return TextKind::json;
  return {};
}

bool is_json_named(std::string_view path) {
  return text_kind_named(path).value_or(TextKind::plain) != TextKind::plain;
}

}  // namespace tg
