#pragma once
// What our own threads did and when, for the trace: the profiler sees LibTorch's work alone.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tg {

struct Span {
  const char* name;           // a literal
  std::int64_t thread;        // as the system numbers it (gettid)
  std::int64_t begin_ns = 0;  // since the Unix epoch
  std::int64_t end_ns = 0;
  std::int64_t batch = -1;  // the micro-batch that it worked on; -1: none
};

// Safe from any thread. Off it costs one load.
class SpanLog {
 public:
  void start() { on_ = true; }
  std::vector<Span> stop();  // what was logged since start()
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void add(const Span& span);

 private:
  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  std::vector<Span> spans_;
};

// Logs its own lifetime; `log` may be null.
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
