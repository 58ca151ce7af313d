#pragma once
#include <cstdint>
#include <functional>

namespace tg {

// Reports progress of this thread's work to its listener, if there is one: `amount` more units,
// such as bytes; 0 for work that is not counted. Long operations call it repeatedly: after each
// part of a file, after each batch of an evaluation.
void report_progress(std::int64_t amount);

// Listens to this thread's progress during its lifetime; the destructor restores the previous
// listener.
class ProgressListener {
 public:
  using OnProgress = std::function<void(std::int64_t amount)>;
  explicit ProgressListener(OnProgress on_progress);
  ~ProgressListener();
  ProgressListener(const ProgressListener&) = delete;
  ProgressListener& operator=(const ProgressListener&) = delete;

 private:
  friend void report_progress(std::int64_t amount);
  const OnProgress on_progress_;
  ProgressListener* const before_;
};

}  // namespace tg
