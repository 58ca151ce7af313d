#pragma once
// Timed spans of our own threads for the trace: the profiler records LibTorch's operations only.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tg {

struct Span {
  const char* name;           // a literal
  std::int64_t thread;        // gettid()
  std::int64_t begin_ns = 0;  // since the Unix epoch
  std::int64_t end_ns = 0;
  std::int64_t batch = -1;  // micro-batch index; -1: none
};

// Thread-safe log of spans. While it is off, add() costs one relaxed load.
class SpanLog {
 public:
  void start() { on_ = true; }
  std::vector<Span> stop();  // returns the spans since start()
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void add(const Span& span);

 private:
  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  std::vector<Span> spans_;
};

// Logs its own lifetime as a span; `log` may be null.
class SpanScope {
 public:
  SpanScope(SpanLog* log, const char* name, std::int64_t batch);
  ~SpanScope();
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  SpanLog* log_;
  Span span_;
};

}  // namespace tg
