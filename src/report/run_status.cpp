#include "report/run_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

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

// Returns the seconds without a line after which a run counts as silent.
double patience_s(double longest_s) {
  return std::max(60.0, 3 * longest_s);
}

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
  if (quiet_s <= patience_s(longest_s_)) return {{"kind", work()}, {"text", work()}};
  return {{"kind", "silent"},
          {"text", fmt::format("{}, no line for {}", work(), duration(quiet_s))}};
}

}  // namespace tg
