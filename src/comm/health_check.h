#pragma once
// What a rank tells the others of itself in a health check, and what they conclude.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tg {

// A rank's answer to a health check: the value of its key in the store.
struct Heartbeat {
  std::int64_t round = 0;  // of the health check that it answers
  std::int64_t step = 0;
  bool waits = false;  // for other ranks; else it works
  double idle_s = 0;   // since its last progress, on its own clock
  std::string work;    // what it announced: "writing the model to logs/1: 123 bytes so far"

  std::string encode() const;
  static Heartbeat decode(const std::string& value);
};

// What one rank knows of all after a health check.
struct HealthReport {
  struct Heard {
    Heartbeat heartbeat;  // the last one, possibly of an earlier round
    std::chrono::steady_clock::time_point at;
  };
  std::int64_t round = 0;
  std::vector<std::optional<Heard>> ranks;  // nothing: never heard of

  bool answered(std::size_t rank) const {
    return ranks[rank] && ranks[rank]->heartbeat.round >= round;
  }
  // Seconds since the last progress of those for whom the others wait: of the rank that works and
  // got on the longest ago; where all wait, of the rank that came last. Nothing: a rank did not
  // answer, and there is nothing to wait for.
  std::optional<double> idle_s() const;
  // Who is to blame: silent ranks, with what was last heard of them, or all, with what they do.
  std::string text() const;
  // What was last heard of a rank, in brackets, or nothing: " (5 s ago: step 8, reading tokens)".
  std::string last_heard(std::size_t rank) const;
};

}  // namespace tg
