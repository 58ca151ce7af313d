#pragma once
// Which files are text, by their names, and those of a folder.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

enum class TextKind {
  plain,       // .txt
  json_lines,  // .jsonl: a JSON object a line
  json,        // .json: the same, or an array of objects
};

// By a file's name, behind which .gz, .zst or .xz may be; nothing: another name.
std::optional<TextKind> text_kind_named(std::string_view path);
bool is_json_named(std::string_view path);

// The text files of a folder and of its subfolders, sorted by their whole paths, byte by byte. Left
// out are files of other names, whatever begins with a dot, and links to folders.
struct FolderTexts {
  std::vector<std::string> files;
  std::vector<std::string> other_files;
  std::map<std::string, int> left_out;  // kind, such as ".md" or "hidden" → how many
};
// Empty where `folder` cannot be listed. Errors: missing_input (a subfolder that cannot be).
FolderTexts find_texts(const std::string& folder);

// Logs one line of what find_texts() left out, if anything.
void log_left_out(const std::string& folder, const FolderTexts& texts);

}  // namespace tg
