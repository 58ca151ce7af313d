#pragma once
#include <cstdint>
#include <functional>
#include <utility>

namespace tg {

// Listens to this thread's progress during its lifetime; the destructor restores the previous
// listener.
class ProgressListener {
 public:
  using OnProgress = std::function<void(std::int64_t amount)>;
  explicit ProgressListener(OnProgress on_progress)
      : on_progress_(std::move(on_progress)), before_(std::exchange(current_, this)) {}
  ~ProgressListener() { current_ = before_; }
  ProgressListener(const ProgressListener&) = delete;
  ProgressListener& operator=(const ProgressListener&) = delete;

 private:
  friend void report_progress(std::int64_t amount);
  const OnProgress on_progress_;
  ProgressListener* const before_;
  static inline thread_local ProgressListener* current_ = nullptr;
};

// Reports progress of this thread's work to its listener, if there is one: `amount` more units,
// such as bytes; 0 for work that is not counted. Long operations call it repeatedly: after each
// part of a file, after each batch of an evaluation.
inline void report_progress(std::int64_t amount) {
  if (ProgressListener::current_ != nullptr) ProgressListener::current_->on_progress_(amount);
}

}  // namespace tg
