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
  bool file_store;  // FileStore, whose file any rank may lock; else a TCPStore, served for rank 0's
                    // run
  int rank, world_size;
  std::shared_ptr<FlightRecord> record;

  std::mutex mutex;  // guards all members below
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
  bool check_done = false;  // the check requested last
  HealthReport report;      // report of the last health check

  // Precondition of all functions but heartbeat() and record_text(): the mutex is held.

  bool is_waiting() const { return wait_scopes > 0 && works.empty(); }
  // Returns the time of the last known progress of this rank and of the ranks that it waits for.
  Clock::time_point idle_since() const { return std::max(last_progress, last_peer_progress); }
  void mark_progress() { last_progress = Clock::now(); }
  // Counts a change of the device's count as progress of this rank.
  void poll_device();
  // Returns this rank's answer to a health check.
  Heartbeat heartbeat(std::int64_t round);
  // Returns the finding of the last health check, or that the store did not answer.
  std::string cause() const;
  // Saves the flight record and returns a text that names its file; empty without a record.
  std::string record_text() const;
};

}  // namespace tg
