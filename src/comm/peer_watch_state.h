#pragma once
// State that the threads of a PeerWatch share; for peer_watch*.cpp alone.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "comm/health_check.h"
#include "comm/peer_watch.h"

namespace tg {

struct PeerWatch::State {
  using Seconds = std::chrono::duration<double>;

  Store store;
  bool file_store;  // whose file any rank may hold, else it is with rank 0
  int rank, world_size;
  std::shared_ptr<FlightRecord> record;

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  Seconds timeout;
  std::int64_t step = 0;
  int wait_scopes = 0;               // live Scopes
  std::list<Work::Announced> works;  // live Works, the innermost last
  Clock::time_point last_progress = Clock::now();
  Clock::time_point last_peer_progress;  // as of the last health check
  at::Tensor device_count;
  std::int64_t device_count_seen = 0;
  bool stopping = false, health_thread_done = false;
  bool check_requested = false;
  bool check_done = false;  // the one that was requested last
  HealthReport report;      // of the last health check

  // All but heartbeat() and record_text() expect the mutex to be held.

  bool is_waiting() const { return wait_scopes > 0 && works.empty(); }
  // The last known progress of this rank and of those that it waits for.
  Clock::time_point idle_since() const { return std::max(last_progress, last_peer_progress); }
  void mark_progress() { last_progress = Clock::now(); }
  // The device's count advances: that is progress of this rank.
  void poll_device();
  // This rank's answer to a health check.
  Heartbeat heartbeat(std::int64_t round);
  // What a health check found, or that the store did not answer it.
  std::string cause() const;
  // Saves the flight record and names its file; empty without one.
  std::string record_text() const;
};

}  // namespace tg
