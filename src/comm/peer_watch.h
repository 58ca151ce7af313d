#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/progress.h"
#include "comm/flight_record.h"
#include "comm/rendezvous.h"

namespace tg {

// Ends a rank that waits for ranks which make no progress for longer than the timeout, whatever it
// is blocked in, and says who is to blame. What counts is progress, not an end: a micro-batch done,
// a batch scored, bytes written. A rank that has waited for half the timeout asks all for a
// heartbeat through the store (a health check), and the watches of all ranks that live answer with
// their step, their work and the time since their last progress. Silence of one rank, or no
// progress of the slowest for the whole timeout, is the end. The store may be gone with its rank,
// so the thread that keeps the time never touches it; without a waiting rank nothing is written to
// it, since a FileStore only grows.
class PeerWatch {
 public:
  // `record` is saved before the end, and named; null: there is none.
  PeerWatch(const Store& store, int rank, int world_size, double timeout_s,
            std::shared_ptr<FlightRecord> record = nullptr);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // This rank is at `step`.
  void set_step(std::int64_t step);
  void set_timeout(double seconds);
  // This rank's host has got on.
  void progress();
  // A count [1] int64 in host memory, which this rank's device advances as it gets on.
  void watch_device(const at::Tensor& count);
  // The message of a collective that failed with `cause`.
  std::string explain_loss(std::string_view cause);

  // Waiting for the others, as long as the outermost one lives; `watch` may be null.
  class Scope {
   public:
    explicit Scope(PeerWatch* watch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PeerWatch* watch_;
  };

  // Announces work of this rank for which the others may have to wait long: "writing the model to
  // logs/1". It must get on: report_progress() of the same thread, which AtomicFile calls, is its
  // progress, counted in `unit`. `watch` may be null.
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
  static void keep_time(State& state);
  static void attend(State& state);  // answers health checks, and makes them

  std::shared_ptr<State> state_;
  std::thread clock_, attendant_;
};

}  // namespace tg
