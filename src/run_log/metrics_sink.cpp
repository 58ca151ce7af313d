#include "run_log/metrics_sink.h"

namespace tg {

void MetricsSink::write(const nlohmann::json& event, bool is_end) {
  const std::lock_guard lock(mutex_);
  if (ended_ && !is_end) return;
  ended_ |= is_end;
  file_.write(event);
  if (also_ && !is_end) also_(event);
}

}  // namespace tg
