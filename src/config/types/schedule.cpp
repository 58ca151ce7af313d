#include "config/types/schedule.h"

namespace tg {

std::vector<double> ramps_at(const RampSchedule& schedule, const RunProgress& progress,
                             std::int64_t steps) {
  const auto index = schedule.stage_at(progress);
  const auto& stages = schedule.stages();
  const auto total = static_cast<double>(steps);
  const auto share_of = [&](double bound) { return bound < 1 ? bound : bound / total; };
  const bool ends = index + 1 < stages.size(), ends_at_step = ends && !stages[index + 1].is_share();
  const double begin = share_of(stages[index].from);
  const double end = ends ? share_of(stages[index + 1].from) : 1;
  const double now = ends_at_step ? static_cast<double>(progress.step) / total : progress.share;
  const double place = end > begin ? std::clamp((now - begin) / (end - begin), 0.0, 1.0) : 0;
  std::vector<double> numbers;
  for (const auto& ramp : stages[index].value) numbers.push_back(ramp.at(place));
  return numbers;
}

}  // namespace tg
