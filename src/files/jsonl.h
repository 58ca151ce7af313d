#pragma once
// JSON for other programs: numbers in full precision (what is read back equals what was written),
// and null for numbers that are not finite, which JSON does not have.
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "files/append_file.h"

namespace tg {

// One JSON value a line, as an AppendFile. An incomplete last line of a killed run is truncated
// when the file is opened again.
class JsonLines {
 public:
  // Creates the file, or appends to it. Errors: cannot_create.
  explicit JsonLines(std::string path);

  void write(const nlohmann::json& value);
  // The open file was renamed to this, for messages.
  void renamed(std::string path) { file_.renamed(std::move(path)); }

 private:
  AppendFile file_;
};

// Truncates a file of JSON lines behind the last one for which `is_last` is true. → whether there
// is one; otherwise the file is unchanged. Errors: io.
bool truncate_behind(const std::string& path,
                     const std::function<bool(const nlohmann::json&)>& is_last);

}  // namespace tg
