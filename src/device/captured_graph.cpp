#include "device/captured_graph.h"

#include "base/log.h"

namespace tg {

void CapturedGraph::run(std::size_t part) {
  if (uses_graphs_ && warmed_up_ && part == 0 && !graphs_.captured()) capture();
  if (graphs_.captured()) return graphs_.replay(part);
  parts_[part]();
  if (part + 1 == parts_.size()) warmed_up_ = true;
}

void CapturedGraph::capture() {
  const auto obstacle = graphs_.capture(parts_);
  if (obstacle.empty()) return;
  uses_graphs_ = false;
  log_warn(
      "{} cannot be captured as CUDA graphs ({}); every kernel is launched on its own, as with "
      "GRAPHS=0",
      name_, obstacle);
}

void CapturedGraph::invalidate() {
  graphs_.invalidate();
  warmed_up_ = false;
}

}  // namespace tg
