#pragma once
// Agreement of all ranks on how a run ends.
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/rendezvous.h"

namespace tg {

// After the last step a run either completes its results or is stopped by a signal to any rank. The
// outcome that is set first in the store holds for all ranks.
class RunEnd {
 public:
  // `store`: null for a single rank. `stop_requested`: returns whether this rank received a stop
  // signal.
  RunEnd(const Store& store, int rank, int world_size, std::function<bool()> stop_requested);

  // Starts a thread that calls `stop` once any rank received a stop signal. `stop` should exit by
  // exit_together().
  void watch(std::function<void()> stop);
  // Called when every rank has its results, between two barriers, since the store may be in rank
  // 0's process. Returns true if the run has ended with them, and nothing stops it any more; false
  // if it was stopped and `stop` has returned. Precondition: watch(). Throws Error(unavailable) if
  // the store is gone, with rank 0.
  bool finish();

  // Ends this process, as every rank must: rank 0 with its line, then the others with the exit code
  // alone. A rank waits until all have called this, at most 5 s, since a rank that still computes
  // would take its exit for a lost peer. Precondition: silence_other_threads().
  [[noreturn]] void exit_together(const Error& error) const;

 private:
  enum class Outcome { undecided, stopped, finished };

  void poll(const std::stop_token& closed, const std::function<void()>& stop);
  Outcome decide(Outcome proposed);
  Outcome decided();
  bool is_stopped_in_store() const;
  void set(const std::string& key) const;
  void wait_for(const std::vector<std::string>& keys) const;

  const Store store_;
  const int rank_, world_size_;
  const std::function<bool()> stop_requested_;
  std::mutex mutex_;
  Outcome decided_ = Outcome::undecided;  // outcome known to this rank
  std::jthread thread_;                   // polls; the last member, so it is joined first
};

}  // namespace tg
