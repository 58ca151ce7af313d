#include "train/lr_trace.h"

#include <algorithm>

#include "base/error.h"
#include "store/metrics_reader.h"

namespace tg {

std::vector<double> read_lr_trace(const std::string& path) {
  std::vector<double> scales;
  MetricsReader reader(path);
  while (const auto event = reader.next()) {
    if (event->at("event") != "train") continue;
    const auto step = event->at("step").get<std::int64_t>();
    const auto& scale = event->at("lr_scale");
    REQUIRE(step == std::ssize(scales) + 1 && scale.is_number(), ExitCode::bad_data,
            "LR_TRACE: {}: expected the lr_scale of step {}, found {} of step {}", reader.place(),
            scales.size() + 1, scale.dump(), step);
    scales.push_back(scale.get<double>());
  }
  REQUIRE(!scales.empty(), ExitCode::bad_data,
          "LR_TRACE: {}: expected a run's metrics.jsonl, found no train event in it", path);
  return scales;
}

void end_with(const std::vector<double>& trace, RunConfig& run) {
  run.iterations = std::min<std::int64_t>(run.iterations, std::ssize(trace));
  run.max_wallclock_seconds = 0;
}

}  // namespace tg
