#pragma once
#include <cstdint>
#include <string>

#include "base/elapsed.h"

namespace tg {

// The terminal's progress line of a long evaluation: "sliding window 12/488  ETA 0:00:12". Erased
// at the end. `done_before`: work done before this object was constructed, excluded from the
// estimate.
class EtaLine {
 public:
  explicit EtaLine(std::string name, std::int64_t done_before = 0);
  ~EtaLine();
  EtaLine(const EtaLine&) = delete;
  EtaLine& operator=(const EtaLine&) = delete;

  void operator()(std::int64_t done, std::int64_t all) const;

 private:
  std::string name_;
  std::int64_t done_before_;
  Clock::time_point began_;
};

}  // namespace tg
