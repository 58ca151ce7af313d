#pragma once
// JSON for other programs: numbers round-trip, and non-finite numbers, which JSON does not have,
// become null.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "files/append_file.h"
#include "files/json_file.h"

namespace tg {

// JSON Lines file, as an AppendFile. An incomplete last line of a killed run is truncated when the
// file is opened again.
class JsonLines {
 public:
  // Creates the file, or appends to it. Throws Error(cannot_create).
  explicit JsonLines(std::string path);

  void write(const nlohmann::json& value) { file_.write(json_text(value, -1) + "\n"); }
  // Updates the path for messages after the open file was renamed.
  void renamed(std::string path) { file_.renamed(std::move(path)); }

 private:
  AppendFile file_;
};

// Truncates a JSON Lines file after the last line for which `is_last` is true. Returns whether
// there is one; otherwise the file is unchanged. Throws Error(io).
bool truncate_after(const std::string& path,
                    const std::function<bool(const nlohmann::json&)>& is_last);

}  // namespace tg
