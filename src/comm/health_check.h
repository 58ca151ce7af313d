#pragma once
// Messages of a health check between ranks, and their evaluation.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/elapsed.h"

namespace tg {

// A rank's answer to a health check; the value of the rank's key in the store.
struct Heartbeat {
  std::int64_t round = 0;  // number of the health check that it answers
  std::int64_t step = 0;
  bool waits = false;  // waiting for other ranks; false: working
  double idle_s = 0;   // seconds since the rank's last progress, by its clock
  std::string work;    // PeerWatch::Work's text: "writing the model to logs/1: 123 bytes so far"

  std::string encode() const;
  static Heartbeat decode(const std::string& value);
};

// The last heartbeat of every rank, as received by one rank.
struct HealthReport {
  struct Received {
    Heartbeat heartbeat;  // may be of an earlier round
    Clock::time_point at;
  };
  std::int64_t round = 0;
  std::vector<std::optional<Received>> ranks;  // by rank; empty: no heartbeat yet

  bool answered(std::size_t rank) const {
    return ranks[rank] && ranks[rank]->heartbeat.round >= round;
  }
  // Returns the seconds since the last progress of the ranks that the others wait for: the maximum
  // over working ranks; if all wait, the minimum (the rank that joined the collective last). Empty
  // if a rank did not answer.
  std::optional<double> idle_s() const;
  // Describes the ranks at fault: ranks that did not answer, with their last heartbeat; or, if all
  // answered, all ranks with their work.
  std::string text() const;
  // Returns a rank's last heartbeat in brackets, or an empty text: " (5 s ago: step 8, reading
  // tokens)".
  std::string last_heartbeat(std::size_t rank) const;
  // Returns all ranks but `own`, with their last heartbeats: " 0 (5 s ago: step 8) 2".
  std::string last_heartbeats_but(std::size_t own) const;
};

}  // namespace tg
