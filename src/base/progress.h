#pragma once
#include <cstdint>
#include <functional>

namespace tg {

// Tells whoever waits for this thread's work that it gets on: `amount` more of what the work
// counts, such as bytes; 0: a part is done that it does not count. Does nothing where nobody
// listens. What works for long calls it now and then: a file being written, each batch of a score.
void report_progress(std::int64_t amount);

// The listener of this thread while the object lives; the one before it listens again afterwards.
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
