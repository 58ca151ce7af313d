#pragma once
// The events of a metrics.jsonl, which may be growing, read line by line and checked.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "files/byte_source.h"

namespace tg {

class MetricsReader {
 public:
  // Errors: missing_input, io.
  explicit MetricsReader(const std::string& path) : file_(path) {}

  // The next event: an object with a string "event", whose known fields have their types; nothing
  // after the last. A line without an end is not all there yet. Errors: io; bad_data, naming file
  // and line (no event, a line of more than 64 KiB, nested deeper than 4).
  std::optional<nlohmann::json> next();
  // "PATH:LINE" of the last event, for messages.
  std::string place() const;

  // Takes in what was appended since, for next(). → false where the file is no longer the one that
  // was read so far: it is gone, replaced, shorter, or the last event is another (a run that goes
  // on from a checkpoint cuts the file back). Errors: io.
  bool grow();
  // Whether the file is shorter than when it was last looked at, replaced or gone.
  bool is_replaced() { return !file_.grow(); }
  // Bytes of the file before the next event, and of all of it.
  std::uint64_t position() const { return read_ - (buffer_.size() - begin_); }
  std::uint64_t size() const { return file_.size(); }

 private:
  std::optional<std::string_view> next_line();

  FileSource file_;
  std::string buffer_;            // of the file, up to `read_`
  std::size_t begin_ = 0;         // of what is left of it
  std::string last_;              // the last line, with its end
  std::uint64_t read_ = 0;        // bytes of the file
  std::int64_t line_number_ = 0;  // from 1
};

// Checks an event's fields by its schema (run_log/events.h; docs/metrics.md lists them): present
// where required, and of their type. A number may be null: it was not finite. Other events and
// fields, of other versions, pass. Errors: bad_data, beginning with `place`.
void check_fields(const nlohmann::json& event, const std::string& place);

}  // namespace tg
