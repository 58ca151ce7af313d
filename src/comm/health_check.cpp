#include "comm/health_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace tg {

namespace {

std::string describe(const Heartbeat& heartbeat) {
  return heartbeat.work.empty() ? fmt::format("step {}", heartbeat.step)
                                : fmt::format("step {}, {}", heartbeat.step, heartbeat.work);
}

}  // namespace

std::string Heartbeat::encode() const {
  return fmt::format("{} {} {:d} {:.3f} {}", round, step, waits, idle_s, work);
}

Heartbeat Heartbeat::decode(const std::string& value) {
  Heartbeat heartbeat;
  std::istringstream text(value);
  text >> heartbeat.round >> heartbeat.step >> heartbeat.waits >> heartbeat.idle_s;
  text.ignore(1);
  std::getline(text, heartbeat.work);
  return heartbeat;
}

std::optional<double> HealthReport::idle_s() const {
  std::optional<double> worker, last_to_join;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!answered(rank)) return {};
    const auto& heartbeat = ranks[rank]->heartbeat;
    if (heartbeat.waits) {
      last_to_join = std::min(last_to_join.value_or(heartbeat.idle_s), heartbeat.idle_s);
    } else {
      worker = std::max(worker.value_or(0), heartbeat.idle_s);
    }
  }
  return worker ? worker : last_to_join;
}

std::string HealthReport::last_heartbeat(std::size_t rank) const {
  if (!ranks[rank]) return "";
  return fmt::format(" ({:.0f} s ago: {})", seconds_since(ranks[rank]->at),
                     describe(ranks[rank]->heartbeat));
}

std::string HealthReport::last_heartbeats_but(std::size_t own) const {
  std::string all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank != own) all += fmt::format(" {}{}", rank, last_heartbeat(rank));
  }
  return all;
}

std::string HealthReport::text() const {
  std::string silent, alive, all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!answered(rank)) {
      silent += fmt::format(" {}{}", rank, last_heartbeat(rank));
      continue;
    }
    const auto& heartbeat = ranks[rank]->heartbeat;
    alive += fmt::format(" {} ({})", rank, describe(heartbeat));
    all += fmt::format(" {} ({}, {} {:.0f} s)", rank, describe(heartbeat),
                       heartbeat.waits ? "waiting for" : "no progress for", heartbeat.idle_s);
  }
  if (silent.empty()) return "all live, one of them is too slow:" + all;
  return fmt::format("stopped or gone: rank{}; alive:{}", silent, alive);
}

}  // namespace tg
