#pragma once
#include <map>
#include <string>
#include <vector>

namespace tg {

// The text files of a folder and of its subfolders, sorted by their whole paths, byte by byte. Left
// out are files of other names (text/text_kind.h), whatever begins with a dot, and links to
// folders.
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
