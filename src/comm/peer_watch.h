#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "comm/flight_record.h"
#include "comm/rendezvous.h"

namespace tg {

// Ends a rank that waits for the others longer than the timeout, whatever it is blocked in, and
// says who is to blame: it calls the roll through the store, and the watches of all ranks that live
// answer with their step. The store may be gone with its rank, so the thread that keeps the time
// never touches it.
class PeerWatch {
 public:
  // `record` is saved before the end, and named; null: there is none.
  PeerWatch(const Store& store, int rank, int world_size, double timeout_s,
            std::shared_ptr<FlightRecord> record = nullptr);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // This rank has come to `step`.
  void set_step(std::int64_t step);
  void set_timeout(double seconds);
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

 private:
  struct State;
  static void keep_time(State& state);
  static void attend(State& state);  // answers the roll, or calls it

  std::shared_ptr<State> state_;
  std::thread clock_, attendant_;
};

}  // namespace tg
