#include "device/captured_graph.h"

#include "base/log.h"

namespace tg {

void Replayed::run(std::size_t part) {
  if (records_ && has_run_ && part == 0 && !graphs_.recorded()) record();
  if (graphs_.recorded()) return graphs_.replay(part);
  parts_[part]();
  if (part + 1 == parts_.size()) has_run_ = true;
}

void Replayed::record() {
  const auto obstacle = graphs_.record(parts_);
  if (obstacle.empty()) return;
  records_ = false;
  log_warn(
      "{} cannot be captured as CUDA graphs ({}); every kernel is launched on its own, as with "
      "GRAPHS=0",
      name_, obstacle);
}

void Replayed::forget() {
  graphs_.forget();
  has_run_ = false;
}

}  // namespace tg
