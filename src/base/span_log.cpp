#include "base/span_log.h"

#include <unistd.h>

#include <chrono>
#include <utility>

namespace tg {
namespace {

std::int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<Span> SpanLog::stop() {
  on_ = false;
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

void SpanLog::add(const Span& span) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  spans_.push_back(span);
}

SpanScope::SpanScope(SpanLog* log, const char* name, std::int64_t batch)
    : log_(log != nullptr && log->on() ? log : nullptr),
      span_{.name = name, .thread = 0, .batch = batch} {
  if (log_ == nullptr) return;
  span_.thread = ::gettid();
  span_.begin_ns = now_ns();
}

SpanScope::~SpanScope() {
  if (log_ == nullptr) return;
  span_.end_ns = now_ns();
  log_->add(span_);
}

}  // namespace tg
