#pragma once
// JSON for other programs: numbers in full precision (what is read back equals what was written),
// and null for numbers that are not finite, which JSON has no word for.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

namespace tg {

// One object a line, each handed to the system whole as soon as it is written. A line that a killed
// run left unfinished is cut off when the file is opened again. A full disk costs lines, not the
// run: it warns once and goes on.
class JsonLines {
 public:
  // Creates the file, or appends to it. Errors: cannot_create.
  explicit JsonLines(std::string path);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  void write(const nlohmann::json& value);
  // The open file is called this now.
  void renamed(std::string path) { path_ = std::move(path); }

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;  // up to the last whole line
  bool warned_ = false;
};

// Indented, with a final newline, through AtomicFile. Errors: cannot_create, io.
void write_json_file(const std::string& path, const nlohmann::json& value);

}  // namespace tg
