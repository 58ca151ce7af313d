#include "base/progress.h"

#include <utility>

namespace tg {

namespace {

thread_local ProgressListener* listener = nullptr;

}  // namespace

ProgressListener::ProgressListener(OnProgress on_progress)
    : on_progress_(std::move(on_progress)), before_(std::exchange(listener, this)) {}

ProgressListener::~ProgressListener() {
  listener = before_;
}

void report_progress(std::int64_t amount) {
  if (listener != nullptr) listener->on_progress_(amount);
}

}  // namespace tg
