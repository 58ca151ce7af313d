#include "eval/eta.h"

#include "base/log.h"

namespace tg {

EtaLine::EtaLine(std::string name)
    : name_(std::move(name)), began_(std::chrono::steady_clock::now()) {}

EtaLine::~EtaLine() {
  progress_line("");
}

void EtaLine::operator()(std::int64_t done, std::int64_t all) const {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began_;
  const auto left = static_cast<long>(spent.count() / static_cast<double>(done) *
                                      static_cast<double>(all - done));
  progress_line(fmt::format("{} {}/{}  ETA {}:{:02}:{:02}", name_, done, all, left / 3600,
                            left / 60 % 60, left % 60));
}

}  // namespace tg
