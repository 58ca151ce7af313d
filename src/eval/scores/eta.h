#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/elapsed.h"
#include "base/log.h"

namespace tg {

// The terminal's progress line of a long evaluation: "sliding window 12/488  ETA 0:00:12". Erased
// at the end. `done_before`: work done before this object was constructed, excluded from the
// estimate.
class EtaLine {
 public:
  explicit EtaLine(std::string name, std::int64_t done_before = 0)
      : name_(std::move(name)), done_before_(done_before) {}
  ~EtaLine() { progress_line(""); }
  EtaLine(const EtaLine&) = delete;
  EtaLine& operator=(const EtaLine&) = delete;

  void operator()(std::int64_t done, std::int64_t all) const {
    const double left_s = seconds_since(began_) / static_cast<double>(done - done_before_) *
                          static_cast<double>(all - done);
    progress_line(fmt::format("{} {}/{}  ETA {}", name_, done, all, clock_text(left_s)));
  }

 private:
  std::string name_;
  std::int64_t done_before_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace tg
