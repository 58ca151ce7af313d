#pragma once
// The events of a metrics.jsonl, read line by line and checked.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "store/byte_source.h"

namespace tg {

class MetricsReader {
 public:
  // Errors: missing_input, io.
  explicit MetricsReader(const std::string& path) : file_(path) {}

  // The next event: an object with a string "event", whose known fields have their types; nothing
  // after the last. Errors: io; bad_data, naming file and line (no event, a line without an end or
  // of more than 64 KiB, nested deeper than 4).
  std::optional<nlohmann::json> next();
  // "PATH:LINE" of the last event, for messages.
  std::string place() const;

 private:
  std::optional<std::string_view> next_line();

  FileSource file_;
  std::string buffer_;            // of the file, up to `read_`
  std::size_t begin_ = 0;         // of what is left of it
  std::uint64_t read_ = 0;        // bytes of the file
  std::int64_t line_number_ = 0;  // from 1
};

}  // namespace tg
