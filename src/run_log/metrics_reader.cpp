#include "run_log/metrics_reader.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "base/error.h"
#include "files/json_file.h"
#include "run_log/events.h"

namespace tg {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxLine = 64 << 10;
constexpr std::size_t kBlock = 1 << 20;

std::string escaped(std::string_view line) {
  constexpr std::size_t kMaxShown = 60;
  const std::string text(line.substr(0, kMaxShown));
  return json(text).dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) +
         (line.size() > kMaxShown ? "..." : "");
}

// Converts the event by which older programs reported the start of the second stage, the one with
// recurrence.
void rename_recurrence(json& event) {
  if (event["event"] != "recurrence") return;
  event["event"] = StageStarted::kEvent.name;
  event["stage"] = 1u;
  event["title"] = "in recurrence";
}

struct Field {
  std::string name;
  FieldType type;
  bool required;
};

// Returns the fields by event name; events that share a name, as warnings do, have the fields of
// all.
std::map<std::string, std::vector<Field>, std::less<>> fields_of_events() {
  std::map<std::string, std::vector<Field>, std::less<>> events;
  for_each_event([&]<EventType E>(const E& event) {
    auto& fields = events[E::kEvent.name];
    event.visit([&]<class T>(const char* name, const T&, FieldRule rule, const char*) {
      fields.push_back({name, TypeOf<T>::value, rule.required});
    });
  });
  // Earlier versions wrote it in `start`; now it is in `train`.
  events["start"].push_back({"flops_per_token", FieldType::number, false});
  return events;
}

void check(const JsonFields& fields, const Field& field) {
  const auto& name = field.name;
  const auto& value = fields.get(name);
  switch (field.type) {
    case FieldType::count:
      fields.count(name);
      break;
    case FieldType::number:
      fields.require(value.is_number() || value.is_null(), name, "a number or null");
      break;
    case FieldType::text:
      fields.text(name);
      break;
    case FieldType::counts_by_name:
      fields.require(value.is_object(), name, "an object");
      break;
  }
}

}  // namespace

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
  read_ = position();  // a partial last line is read again
  buffer_.clear();
  begin_ = 0;
  return file_.read(read_ - last_.size(), last_.size()) == last_;
}

void check_fields(const nlohmann::json& event, const std::string& place) {
  static const auto events = fields_of_events();
  const auto known = events.find(event.at("event").get_ref<const std::string&>());
  if (known == events.end()) return;
  const JsonFields fields(event, place);
  for (const auto& field : known->second) {
    if (field.required || event.contains(field.name)) check(fields, field);
  }
}

}  // namespace tg
