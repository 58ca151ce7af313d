#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/progress.h"
#include "comm/flight_record.h"
#include "comm/rendezvous.h"

namespace tg {

// Ends the process of a rank that waits for ranks which make no progress for longer than the
// timeout, whatever call it is blocked in, and names the rank at fault. Progress is a micro-batch
// done, a batch scored, bytes written. A rank that has waited for half the timeout requests a
// health check through the store: every live rank's watch answers with a heartbeat of its step, its
// work and the time since its last progress. The process ends if a rank does not answer, or if the
// slowest one made no progress for the whole timeout. Nothing is written to the store while no rank
// waits, since a FileStore only grows.
class PeerWatch {
 public:
  // `record` is saved before the process ends, and the message names its file; null: no record.
  PeerWatch(const Store& store, int rank, int world_size, double timeout_s,
            std::shared_ptr<FlightRecord> record = nullptr);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // This rank is at `step`.
  void set_step(std::int64_t step);
  // → the one before.
  double set_timeout(double seconds);
  // This rank's host made progress.
  void progress();
  // `count` [1] int64 in host memory: this rank's device advances it as it makes progress.
  void watch_device(const at::Tensor& count);
  // The error message for a collective that failed with `cause`.
  std::string explain_loss(std::string_view cause);

  // This rank waits for the others while one lives. `watch` may be null.
  class Scope {
   public:
    explicit Scope(PeerWatch* watch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PeerWatch* watch_;
  };

  // The timeout is `seconds` while one lives. `watch` may be null.
  class Timeout {
   public:
    Timeout(PeerWatch* watch, double seconds);
    ~Timeout();
    Timeout(const Timeout&) = delete;
    Timeout& operator=(const Timeout&) = delete;

   private:
    PeerWatch* watch_;
    double before_s_ = 0;
  };

  // This rank does work that others may have to wait for, such as "writing the model to logs/1".
  // Calls of report_progress() by the same thread, as AtomicFile makes them, count as its progress,
  // in `unit`. `watch` may be null.
  class Work {
   public:
    Work(PeerWatch* watch, std::string doing, std::string unit = "bytes");
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    friend class PeerWatch;
    struct Announced {
      std::string doing, unit;
      std::int64_t done = 0;
    };
    void progress(std::int64_t amount);

    PeerWatch* watch_;
    std::list<Announced>::iterator announced_;
    const ProgressListener listener_;
  };

 private:
  struct State;
  static void watch_timeout(State& state);        // the timeout thread
  static void serve_health_checks(State& state);  // the health thread: answers and makes them
  static void check_health(State& state, std::unique_lock<std::mutex>& lock);
  [[noreturn]] static void end_process(State& state, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<State> state_;
  std::thread timeout_thread_, health_thread_;
};

}  // namespace tg
