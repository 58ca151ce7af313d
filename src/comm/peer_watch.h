#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "comm/rendezvous.h"

namespace tg {

// Ends a rank that waits for the others longer than the timeout, whatever it is blocked in, and
// says who is to blame: it calls the roll through the store, and the watches of all ranks that live
// answer with their step.
class PeerWatch {
 public:
  PeerWatch(Store store, int rank, int world_size, double timeout_s);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // This rank has come to `step`.
  void set_step(std::int64_t step);
  void set_timeout(double seconds);
  // The message of a collective that failed with `cause`.
  std::string explain_loss(std::string_view cause);

  // Waiting for the others, as long as it lives; `watch` may be null.
  class Scope {
   public:
    explicit Scope(PeerWatch* watch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PeerWatch* watch_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void answer();
  std::string call_the_roll();

  Store store_;
  int rank_, world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::duration<double> timeout_;
  std::int64_t step_ = 0;
  bool waiting_ = false, stopping_ = false;
  Clock::time_point waits_since_;
  std::thread thread_;
};

}  // namespace tg
