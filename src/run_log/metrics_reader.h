#pragma once
// Reads and checks the events of a metrics.jsonl, which may be growing, line by line.
#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "files/byte_source.h"

namespace tg {

class MetricsReader {
 public:
  // Throws Error: missing_input, io.
  explicit MetricsReader(const std::string& path) : file_(path) {}

  // Returns the next event, an object with a string "event" and known fields of the right types;
  // nothing after the last. Ignores an incomplete last line. Throws Error: io; bad_data, naming
  // file and line, if a line is no event, exceeds 64 KiB or is nested deeper than 4.
  std::optional<nlohmann::json> next();
  // Returns "PATH:LINE" of the last event, for messages.
  std::string place() const { return fmt::format("{}:{}", file_.name(), line_number_); }

  // Makes next() continue with events that were appended since. Returns false if the file is not
  // the one that was read so far: it is removed, replaced, shorter, or its last event differs (a
  // resumed run truncates the file). Throws Error(io).
  bool grow();
  // Returns whether the file was truncated, replaced or removed since the last check.
  bool is_replaced() { return !file_.grow(); }
  // Offset of the next event, and size of the file, in bytes.
  std::uint64_t position() const { return read_ - (buffer_.size() - begin_); }
  std::uint64_t size() const { return file_.size(); }

 private:
  std::optional<std::string_view> next_line();

  FileSource file_;
  std::string buffer_;            // the file's bytes up to `read_`
  std::size_t begin_ = 0;         // offset of the unread rest in the buffer
  std::string last_;              // the last line, with its newline
  std::uint64_t read_ = 0;        // bytes read from the file
  std::int64_t line_number_ = 0;  // of the last line, from 1
};

// Checks an event's fields against its schema (run_log/events.h; docs/metrics.md lists them). A
// number may be null, if it was not finite. Unknown events and fields, of other versions, pass.
// Throws Error(bad_data), beginning with `place`, if a required field is missing or a field has
// another type.
void check_fields(const nlohmann::json& event, const std::string& place);

}  // namespace tg
