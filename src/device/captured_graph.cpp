#include "device/captured_graph.h"

#include "base/log.h"

namespace tg {

void CapturedGraph::run(std::size_t part) {
  auto& form = forms_[selected_];
  if (uses_graphs_ && form.warmed_up && part == 0 && !form.graphs.captured()) capture(form);
  if (form.graphs.captured()) return form.graphs.replay(part);
  parts_[part]();
  if (part + 1 == parts_.size()) form.warmed_up = true;
}

void CapturedGraph::capture(Form& form) {
  const auto failure = form.graphs.capture(parts_);
  if (failure.empty()) {
    ++captures_;
    return;
  }
  uses_graphs_ = false;
  for (auto& [key, other] : forms_) other.graphs.invalidate();
  log_warn(
      "{} cannot be captured as CUDA graphs ({}); every kernel is launched separately, as with "
      "GRAPHS=0",
      name_, failure);
}

}  // namespace tg
