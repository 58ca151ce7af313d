#pragma once
// The messages of a health check between ranks, and the conclusion drawn from them.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/elapsed.h"

namespace tg {

// A rank's answer to a health check, the value of its key in the store.
struct Heartbeat {
  std::int64_t round = 0;  // the health check that it answers
  std::int64_t step = 0;
  bool waits = false;  // for other ranks; false: it works
  double idle_s = 0;   // seconds since its last progress, by its own clock
  std::string work;    // from PeerWatch::Work: "writing the model to logs/1: 123 bytes so far"

  std::string encode() const;
  static Heartbeat decode(const std::string& value);
};

// The last heartbeat of every rank, as one rank received them.
struct HealthReport {
  struct Received {
    Heartbeat heartbeat;  // possibly of an earlier round
    Clock::time_point at;
  };
  std::int64_t round = 0;
  std::vector<std::optional<Received>> ranks;  // empty: no heartbeat yet

  bool answered(std::size_t rank) const {
    return ranks[rank] && ranks[rank]->heartbeat.round >= round;
  }
  // Seconds since the last progress of the ranks that the others wait for: the maximum over ranks
  // that work; if all wait, the minimum (the rank that joined the collective last). Empty: a rank
  // did not answer.
  std::optional<double> idle_s() const;
  // The ranks at fault: those that did not answer, with their last heartbeat, or all with their
  // work.
  std::string text() const;
  // A rank's last heartbeat in brackets, or empty: " (5 s ago: step 8, reading tokens)".
  std::string last_heartbeat(std::size_t rank) const;
  // All ranks but `own`, with these: " 0 (5 s ago: step 8) 2".
  std::string last_heartbeats_but(std::size_t own) const;
};

}  // namespace tg
