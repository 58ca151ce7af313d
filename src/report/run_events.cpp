#include "report/run_events.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/is_in.h"
#include "run_log/events.h"

namespace tg {
namespace {

using nlohmann::json;

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

void RunEvents::FirstAndLast::add(json event) {
  constexpr std::size_t kMaxEvents = 100;
  if (first_.size() < kMaxEvents) {
    first_.push_back(std::move(event));
  } else {
    if (last_.size() == kMaxEvents) last_.pop_front();
    last_.push_back(std::move(event));
  }
}

void RunEvents::FirstAndLast::append_to(json& list) const {
  for (const auto& event : first_) list.push_back(event);
  for (const auto& event : last_) list.push_back(event);
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
    lists_[name].add(event);
  }
  if (is_in(kLast, name)) last_[name] = event;
}

void RunEvents::write_to(json& run) const {
  const auto append = [&](std::string_view name, json& list) {
    const auto found = lists_.find(std::string(name));
    if (found != lists_.end()) found->second.append_to(list);
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
