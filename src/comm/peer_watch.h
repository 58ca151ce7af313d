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

// Watchdog: exits, naming the rank at fault, if this rank waits for ranks that make no progress for
// longer than the timeout, whatever call it is blocked in. Progress is a finished micro-batch, a
// scored batch, written bytes. A rank that has waited for half the timeout requests a health check
// through the store: every live rank's watch answers with a heartbeat of its step, its work and the
// time since its last progress. The process exits if a rank does not answer, or if the slowest rank
// made no progress for the whole timeout. While no rank waits, nothing is written to the store,
// since a FileStore only grows.
class PeerWatch {
 public:
  // `record` is saved before the process exits, and the message names its file; null: no record.
  PeerWatch(const Store& store, int rank, int world_size, double timeout_s,
            std::shared_ptr<FlightRecord> record = nullptr);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // Sets the step that this rank reports in heartbeats.
  void set_step(std::int64_t step);
  // Returns the previous timeout.
  double set_timeout(double seconds);
  // Reports progress of this rank's host.
  void progress();
  // Watches `count`, [1] int64 in host memory, which this rank's device increments as it makes
  // progress.
  void watch_device(const at::Tensor& count);
  // Returns the error message for a collective that failed with `cause`.
  std::string explain_loss(std::string_view cause);

  // Marks this rank as waiting for the others until destroyed. `watch` may be null.
  class Scope {
   public:
    explicit Scope(PeerWatch* watch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PeerWatch* watch_;
  };

  // Sets the timeout to `seconds` until destroyed. `watch` may be null.
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

  // Marks this rank as working until destroyed, on something that others may have to wait for, such
  // as "writing the model to logs/1". Calls of report_progress() on the same thread, such as
  // AtomicFile's, count as progress, in `unit`. `watch` may be null.
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
  // Calls change(state) of `watch`, if it is not null, as progress of this rank's host.
  static void advance(PeerWatch* watch, auto&& change);
  static void watch_timeout(State& state);        // the timeout thread
  static void serve_health_checks(State& state);  // the health thread: answers and requests checks
  static void check_health(State& state, std::unique_lock<std::mutex>& lock);
  [[noreturn]] static void end_process(State& state, std::unique_lock<std::mutex>& lock);

  std::shared_ptr<State> state_;
  std::thread timeout_thread_, health_thread_;
};

}  // namespace tg
