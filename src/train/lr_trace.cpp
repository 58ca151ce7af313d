#include "train/lr_trace.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "run_log/events.h"
#include "run_log/metrics_reader.h"

namespace tg {

std::vector<TracedStep> read_lr_trace(const std::string& path) {
  std::vector<TracedStep> steps;
  std::int64_t tokens_before = 0;
  std::map<std::int64_t, std::int64_t> stages;  // by the step before which they begin
  MetricsReader reader(path);
  while (const auto event = reader.next()) {
    // On a GPU this event precedes the previous step's, which is read back later.
    if (event->at("event") == StageStarted::kEvent.name)
      stages[event->at("step").get<std::int64_t>()] = event->at("stage").get<std::int64_t>();
    if (event->at("event") != StepEnded::kEvent.name) continue;
    const auto step = event->at("step").get<std::int64_t>();
    const auto& scale = event->at("lr_scale");
    REQUIRE(step == std::ssize(steps) + 1 && scale.is_number(), ExitCode::bad_data,
            "LR_TRACE: {}: expected the lr_scale of step {}, found {} of step {}", reader.place(),
            steps.size() + 1, scale.dump(), step);
    const auto tokens = event->value("tokens", std::int64_t{0});
    steps.push_back({.lr_scale = scale.get<double>(),
                     .tokens = tokens - tokens_before,
                     .seq_len = event->value("seq_len", std::int64_t{0})});
    tokens_before = tokens;
  }
  for (const auto& [from, stage] : stages) {
    for (auto step = from; step < std::ssize(steps); ++step)
      steps[static_cast<std::size_t>(step)].stage = stage;
  }
  REQUIRE(!steps.empty(), ExitCode::bad_data,
          "LR_TRACE: {}: expected a run's metrics.jsonl, found no train event in it", path);
  return steps;
}

void end_with(const std::vector<TracedStep>& trace, RunConfig& run) {
  run.iterations = std::min<std::int64_t>(run.iterations, std::ssize(trace));
  run.max_wallclock_seconds = 0;
}

void follow(const std::vector<TracedStep>& trace, RunConfig& run) {
  if (!trace.empty()) run.schedule_iterations = std::ssize(trace);
}

}  // namespace tg
