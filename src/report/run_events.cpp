#include "report/run_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/is_in.h"
#include "run_log/events.h"

namespace tg {
namespace {

using nlohmann::json;

double seconds(const json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_number() ? found->get<double>() / 1000 : 0;
}

// Formats a duration of at least a minute: "3 min", "5 h", "12 days".
std::string duration(double s) {
  const auto minutes = static_cast<std::int64_t>(s / 60), hours = minutes / 60;
  if (hours < 2) return fmt::format("{} min", minutes);
  return hours < 48 ? fmt::format("{} h", hours) : fmt::format("{} days", hours / 24);
}

constexpr std::ptrdiff_t kEnds = 100;  // most events of a kind that are kept from either end
constexpr auto kMarks = std::to_array<std::string_view>(
    {CheckpointSaved::kEvent.name, Resumed::kEvent.name, BatchesChanged::kEvent.name,
     LateQatStarted::kEvent.name, StageStarted::kEvent.name, SwaStarted::kEvent.name,
     StepSkipped::kEvent.name, StoppedEarly::kEvent.name});
constexpr auto kLists = std::to_array<std::string_view>(
    {SettingWarning::kEvent.name, FinalScored::kEvent.name, ArtifactWritten::kEvent.name});
constexpr auto kLast = std::to_array<std::string_view>(
    {DataPlanned::kEvent.name, RunStarted::kEvent.name, FirstStepEnded::kEvent.name,
     LoopEnded::kEvent.name, MemoryMeasured::kEvent.name});

}  // namespace

void RunStatus::add(const json& event) {
  const auto& name = event["event"].get_ref<const std::string&>();
  exit_ = name == RunEnded::kEvent.name ? event : json();  // a resumed run has not ended
  if (name == StepEnded::kEvent.name) {
    const double ms = 1000 * seconds(event, "train_time_ms");
    if (steps_) longest_s_ = std::max(longest_s_, (ms - last_ms_) / 1000);
    last_ms_ = ms;
    step_ = event["step"].get<std::int64_t>();
    steps_ = true;
  }
  if (name == Resumed::kEvent.name) step_ = event["step"].get<std::int64_t>();
  if (name == Validated::kEvent.name)
    longest_s_ = std::max(longest_s_, seconds(event, "val_time_ms"));
  if (name == LoopEnded::kEvent.name) closing_ = true;
}

const char* RunStatus::work() const {
  if (closing_) return "scoring";
  return steps_ ? "training" : "starting";
}

json RunStatus::as_json(double quiet_s) const {
  if (!exit_.is_null()) {
    const auto code = exit_["code"].get<std::int64_t>();
    if (code == 0) return {{"kind", "ended"}, {"text", "ended"}};
    const auto text = fmt::format("stopped at step {}, exit {}", exit_.value("step", step_), code);
    return {{"kind", "stopped"}, {"text", text}};
  }
  if (quiet_s <= std::max(60.0, 3 * longest_s_)) return {{"kind", work()}, {"text", work()}};
  return {{"kind", "silent"},
          {"text", fmt::format("{}, no line for {}", work(), duration(quiet_s))}};
}

void RunEvents::add(const json& event, const std::string& place) {
  const auto& name = event["event"].get_ref<const std::string&>();
  if (name == StepEnded::kEvent.name) {
    REQUIRE(begun(), ExitCode::bad_data,
            "{}: expected a \"start\" event before the first \"train\", found none", place);
    tables_.add_train(event, place);
  }
  status_.add(event);
  if (name == RunStarted::kEvent.name) tables_.set_defaults(event);
  if (name == StepTimed::kEvent.name) tables_.add_timing(event);
  if (name == Validated::kEvent.name) tables_.add_val(event);
  if (is_in(kMarks, name) || is_in(kLists, name)) {
    ++counts_[name];
    auto& list = lists_[name];
    list.push_back(event);
    if (std::ssize(list) > 2 * kEnds) list.erase(list.begin() + kEnds);
  }
  if (is_in(kLast, name)) last_[name] = event;
}

void RunEvents::write_to(json& run) const {
  const auto append = [&](std::string_view name, json& list) {
    const auto found = lists_.find(std::string(name));
    if (found == lists_.end()) return;
    for (const auto& event : found->second) list.push_back(event);
  };
  run["marks"] = json::array();
  for (const auto name : kMarks) append(name, run["marks"]);
  for (const auto name : kLists) append(name, run[std::string(name)] = json::array());
  for (const auto& [name, event] : last_) run[name] = event;
  if (!status_.exit().is_null()) run["exit"] = status_.exit();
  run["counts"] = counts_;
  tables_.write_to(run);
}

}  // namespace tg
