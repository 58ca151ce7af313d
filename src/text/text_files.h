#pragma once
// Text files: recognized by name, and listed in a folder.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

enum class TextKind {
  plain,       // .txt
  json_lines,  // .jsonl: a JSON object a line
  json,        // JSON objects, one per line, or an array of them
};

// Returns the kind by the file's name, ignoring .gz, .zst or .xz; nullopt: not text.
std::optional<TextKind> text_kind_named(std::string_view path);
bool is_json_named(std::string_view path);
// Returns whether a file of this name has its documents under a key: JSON or Parquet.
bool has_text_key(std::string_view path);
// Returns whether DocumentReader reads a file of this name: text, or Parquet in a program that can.
bool is_readable_named(std::string_view path);

// Text files of a folder and its subfolders, sorted bytewise by their paths. Files with other
// names, hidden files and folders, and links to folders are left out.
struct FolderTexts {
  std::vector<std::string> files;
  std::vector<std::string> other_files;
  std::map<std::string, int> left_out;  // count by kind, such as ".md" or "hidden"
};
// Returns no files if `folder` cannot be listed. Throws Error(missing_input) if a subfolder cannot.
FolderTexts find_texts(const std::string& folder);

// Logs one line about what find_texts() left out, if anything.
void log_left_out(const std::string& folder, const FolderTexts& texts);

}  // namespace tg
