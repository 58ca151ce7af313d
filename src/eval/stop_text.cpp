#include "eval/stop_text.h"

#include <algorithm>

namespace tg {

void StopText::pass_on(std::size_t count) {
  if (count > 0) on_text_(std::string_view(waiting_).substr(0, count));
  waiting_.erase(0, count);
}

void StopText::add(std::string_view text) {
  if (found_) return;
  waiting_ += text;
  if (const auto at = stop_.empty() ? waiting_.npos : waiting_.find(stop_); at != waiting_.npos) {
    found_ = true;
    pass_on(at);
    waiting_.clear();
    return;
  }
  // The longest end of the text with which `stop` begins.
  auto kept = std::min(waiting_.size(), stop_.size());
  while (kept > 0 && !stop_.starts_with(std::string_view(waiting_).substr(waiting_.size() - kept)))
    --kept;
  pass_on(waiting_.size() - kept);
}

void StopText::end() {
  pass_on(waiting_.size());
}

}  // namespace tg
