#include "run_log/metrics_reader.h"

#include <algorithm>

#include "base/error.h"
#include "files/json_file.h"
#include "run_log/event_fields.h"
#include "run_log/step_events.h"

namespace tg {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLine = 64 << 10;
constexpr std::size_t kBlock = 1 << 20;

std::string escaped(std::string_view line) {
  constexpr std::size_t kMost = 60;
  const std::string text(line.substr(0, kMost));
  return json(text).dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) +
         (line.size() > kMost ? "..." : "");
}

// Older programs said so that the second of two stages, which had recurrence, began.
void rename_recurrence(json& event) {
  if (event["event"] != "recurrence") return;
  event["event"] = StageStarted::kEvent.name;
  event["stage"] = 1u;
  event["title"] = "in recurrence";
}

}  // namespace

std::string MetricsReader::place() const {
  return fmt::format("{}:{}", file_.name(), line_number_);
}

std::optional<std::string_view> MetricsReader::next_line() {
  for (;;) {
    const auto end = buffer_.find('\n', begin_);
    const auto length = (end == buffer_.npos ? buffer_.size() : end) - begin_;
    const bool whole = end != buffer_.npos, too_long = length > kMaxLine;
    if (whole || too_long) ++line_number_;
    REQUIRE(!too_long, ExitCode::bad_data,
            "{}: expected an event of at most {} bytes, found a longer line", place(), kMaxLine);
    if (whole) {
      const auto line = std::string_view(buffer_).substr(begin_, length);
      begin_ = end + 1;
      return line;
    }
    if (read_ == file_.size()) return std::nullopt;
    buffer_.erase(0, begin_);
    begin_ = 0;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, file_.size() - read_));
    buffer_ += file_.read(read_, count);
    read_ += count;
  }
}

std::optional<json> MetricsReader::next() {
  const auto line = next_line();
  if (!line) return std::nullopt;
  last_.assign(line->data(), line->size() + 1);
  auto event = parse_json(*line).value_or(json(json::value_t::discarded));
  const bool named = event.is_object() && event.contains("event") && event["event"].is_string();
  REQUIRE(named, ExitCode::bad_data,
          "{}: expected an event, a JSON object with a string \"event\", found {}", place(),
          escaped(*line));
  rename_recurrence(event);
  check_fields(event, place());
  return event;
}

bool MetricsReader::grow() {
  if (!file_.grow()) return false;
  read_ = position();  // the start of a line may be written anew
  buffer_.clear();
  begin_ = 0;
  return file_.read(read_ - last_.size(), last_.size()) == last_;
}

}  // namespace tg
