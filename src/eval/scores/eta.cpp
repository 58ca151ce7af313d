#include "eval/scores/eta.h"

#include "base/log.h"

namespace tg {

EtaLine::EtaLine(std::string name, std::int64_t done_before)
    : name_(std::move(name)), done_before_(done_before), began_(Clock::now()) {}

EtaLine::~EtaLine() {
  progress_line("");
}

void EtaLine::operator()(std::int64_t done, std::int64_t all) const {
  const auto left =
      static_cast<long>(seconds_since(began_) / static_cast<double>(done - done_before_) *
                        static_cast<double>(all - done));
  progress_line(fmt::format("{} {}/{}  ETA {}:{:02}:{:02}", name_, done, all, left / 3600,
                            left / 60 % 60, left % 60));
}

}  // namespace tg
