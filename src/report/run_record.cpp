#include "report/run_record.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "report/step_tables.h"
#include "store/json_fields.h"
#include "store/metrics_reader.h"

namespace tg {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kMarks = {
    "checkpoint", "resume", "batches", "late_qat", "swa", "skipped_step", "stopping_early"};
constexpr std::array<std::string_view, 3> kLists = {"warning", "final", "artifact"};
constexpr std::array<std::string_view, 5> kLast = {"data", "start", "first_step", "closing",
                                                   "memory"};

template <std::size_t n>
bool is_in(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// The first and the last hundred of a kind of event.
class Ends {
 public:
  void add(json event) {
    if (first_.size() < kMost) {
      first_.push_back(std::move(event));
    } else {
      if (last_.size() == kMost) last_.pop_front();
      last_.push_back(std::move(event));
    }
  }
  void append_to(json& list) const {
    for (const auto& event : first_) list.push_back(event);
    for (const auto& event : last_) list.push_back(event);
  }

 private:
  static constexpr std::size_t kMost = 100;
  std::vector<json> first_;
  std::deque<json> last_;
};

struct Events {
  StepTables tables;
  std::map<std::string, Ends> lists;
  std::map<std::string, json> last;
  std::map<std::string, std::int64_t> counts;

  void add(const json& event, const std::string& place);
};

void Events::add(const json& event, const std::string& place) {
  const auto& name = event["event"].get_ref<const std::string&>();
  if (name == "train") {
    REQUIRE(last.contains("start"), ExitCode::bad_data,
            "{}: expected a \"start\" event before the first \"train\", found none", place);
    tables.add_train(event, place);
  }
  if (name == "start") tables.set_tokens_per_step(event["tokens_per_step"].get<double>());
  if (name == "timing") tables.add_timing(event);
  if (name == "val") tables.add_val(event);
  if (is_in(kMarks, name) || is_in(kLists, name)) {
    ++counts[name];
    lists[name].add(event);
  }
  if (is_in(kLast, name)) last[name] = event;
}

Events read_events(const std::string& path) {
  MetricsReader reader(path);
  Events events;
  while (const auto event = reader.next()) events.add(*event, reader.place());
  REQUIRE(events.last.contains("start"), ExitCode::bad_data,
          "{}: expected the events of a run, found no \"start\"", path);
  return events;
}

json marks_of(const Events& events) {
  json marks = json::array();
  for (const auto name : kMarks) {
    const auto found = events.lists.find(std::string(name));
    if (found != events.lists.end()) found->second.append_to(marks);
  }
  for (auto& mark : marks) {
    const auto position = events.tables.at(mark["step"].get<double>());
    mark["ms"] = position.ms;
    mark["tokens"] = position.tokens;
  }
  return marks;
}

// Of config.json: settings and origins, and the texts.
void add_config(const std::string& path, json& run) {
  const json config = read_json_file(path);
  const JsonFields fields(config, path);
  for (const auto* name : {"settings", "origins"}) {
    fields.require(fields.get(name).is_object(), name, "an object");
    run[name] = config[name];
  }
  for (const auto* name : {"versions", "device"}) run[name] = fields.text(name);
  const auto id = run["settings"].find("RUN_ID");
  run["name"] = id != run["settings"].end() && id->is_string() ? *id : json("run");
}

}  // namespace

json read_run(const RunPath& path) {
  json run = {{"path", path.metrics}};
  add_config(path.config, run);
  const auto events = read_events(path.metrics);
  events.tables.write_to(run);
  run["marks"] = marks_of(events);
  for (const auto name : kLists) {
    json& list = run[std::string(name)] = json::array();
    const auto found = events.lists.find(std::string(name));
    if (found != events.lists.end()) found->second.append_to(list);
  }
  for (const auto& [name, event] : events.last) run[name] = event;
  run["counts"] = events.counts;
  return run;
}

}  // namespace tg
