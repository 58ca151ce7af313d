#include "text/text_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/escaped.h"
#include "base/log.h"
#include "files/unpacked_file.h"
#include "text/parquet_texts.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

std::string kind_of(const fs::path& file) {
  const std::string suffix = file.extension();
  return suffix.empty() ? "without a suffix" : escaped(suffix, 20);
}

void add(const fs::directory_entry& entry, FolderTexts& texts) {
  std::error_code ignored;
  const std::string path = entry.path();
  if (entry.is_directory(ignored)) {
    ++texts.left_out["links to folders"];
  } else if (is_readable_named(path)) {
    texts.files.push_back(path);
  } else {
    texts.other_files.push_back(path);
    ++texts.left_out[kind_of(entry.path())];
  }
}

}  // namespace

std::optional<TextKind> text_kind_named(std::string_view path) {
  path = without_compression(path);
  if (path.ends_with(".txt")) return TextKind::plain;
  if (path.ends_with(".jsonl")) return TextKind::json_lines;
  if (path.ends_with(".json")) return TextKind::json;
  return {};
}

bool has_text_key(std::string_view path) {
  return is_json_named(path) || is_parquet_named(path);
}

bool is_readable_named(std::string_view path) {
  return text_kind_named(path) || (is_parquet_named(path) && can_read_parquet());
}

bool is_json_named(std::string_view path) {
  return text_kind_named(path).value_or(TextKind::plain) != TextKind::plain;
}

FolderTexts find_texts(const std::string& folder) {
  FolderTexts texts;
  std::error_code error, ignored;
  fs::recursive_directory_iterator entry(folder, error);
  if (error) return texts;
  for (const fs::recursive_directory_iterator end; entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with('.')) {
      ++texts.left_out["hidden"];
      entry.disable_recursion_pending();
    } else if (fs::symlink_status(entry->path(), ignored).type() != fs::file_type::directory) {
      add(*entry, texts);
    }
  }
  REQUIRE(!error, ExitCode::missing_input, "cannot list the folders in {} ({})", folder,
          error.message());
  std::ranges::sort(texts.files);
  std::ranges::sort(texts.other_files);
  return texts;
}

void log_left_out(const std::string& folder, const FolderTexts& texts) {
  std::string list;
  for (const auto& [kind, count] : texts.left_out)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, kind);
  if (list.empty()) return;
  log_info("{}: {} text files; left out: {}", folder, texts.files.size(), list);
}

}  // namespace tg
