#pragma once
// Collectives between the ranks of a run: NCCL on GPUs, Gloo on CPUs, none for one rank alone.
#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/backend.h"
#include "comm/peer_watch.h"
#include "device/event.h"

namespace tg {

class Communicator;

// What decides in which order the terms of a sum over ranks are added.
enum class SumOrder {
  library,  // NCCL's rings, which may be others in the next run; Gloo's order is always the same
  // The number of ranks and the shape: every term is sent to where it is added, and halves are
  // added in fp32 and rounded once. A sum of n elements over W ranks takes a workspace of W·n, a
  // reduce-scatter one as large as its input, until its wait() returns.
  ranks,
};
// `deterministic`: another run must give the same bits.
SumOrder choose_sum_order(bool deterministic, at::Device device);

// An asynchronous collective. It keeps its tensors alive; they must not be read or written before
// wait() returns.
class Pending {
 public:
  Pending() = default;  // nothing to wait for
  // On a CPU blocks until the collective is done; on a GPU makes the current stream wait for it,
  // not the host. Errors: unavailable (a rank is gone).
  void wait();

 private:
  friend class Communicator;
  Pending(Communicator& communicator, c10::intrusive_ptr<c10d::Work> work,
          std::vector<at::Tensor> tensors)
      : communicator_(&communicator), work_(std::move(work)), tensors_(std::move(tensors)) {}
  // wait() then writes the sums of `terms` [W, n] over ranks to `sum`, of n elements.
  Pending(Pending pending, at::Tensor terms, at::Tensor sum) : Pending(std::move(pending)) {
    terms_ = std::move(terms);
    sum_ = std::move(sum);
  }

  Communicator* communicator_ = nullptr;
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> tensors_;
  at::Tensor terms_, sum_;
};

class Communicator {
 public:
  // A single rank: every collective is done at once.
  Communicator() = default;
  // Collective. All tensors must be on `device`. `timeout_s` bounds the wait for ranks that make no
  // progress; until begin_training() it is at least 300 s. When a collective fails, the flight
  // record is saved in `record_folder`; empty: not saved. Errors: unavailable.
  Communicator(const Rendezvous& rendezvous, const LaunchInfo& launch, at::Device device,
               double timeout_s, SumOrder order, const std::string& record_folder = "");
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Collectives on contiguous tensors on the device. Every rank calls them in the same order, with
  // the same shapes and dtypes.

  // All-reduce: the sum over ranks, or the largest of each element, in place.
  Pending sum(const at::Tensor& in_place);
  Pending max(const at::Tensor& in_place);
  // in [W · n, …] → out [n, …], this rank's part of the sum over ranks.
  Pending reduce_scatter(const at::Tensor& out, const at::Tensor& in);
  // in [n, …] → out [W · n, …].
  Pending all_gather(const at::Tensor& out, const at::Tensor& in);
  // Errors: unavailable.
  void barrier();
  // Rank 0's text, on every rank; the other ranks' is ignored. Errors: unavailable.
  std::string broadcast(const std::string& text);
  // Calls `make` on one rank of each host, and returns its text on all ranks of that host; empty if
  // it failed, which that rank reports. Throws Error(unavailable) and what `make` throws.
  std::string once_per_host(const std::function<std::string()>& make);
  // Makes a counter that all ranks share and returns its number. Every rank makes its counters in
  // one order; waits for no other rank.
  int make_counter() { return counters_made_++; }
  // Deals 0, 1, 2, … to whichever rank asks next, each number once: `count` of them → the first.
  // Errors: unavailable.
  std::int64_t claim(int counter, std::int64_t count = 1);
  // The first rank whose `value` is true; nothing: none. Errors: unavailable.
  std::optional<int> first_rank_with(bool value);

  // Collective, after the first step: from now on the timeout is `timeout_s`. Errors: unavailable.
  void begin_training();
  // Reports progress, such as a micro-batch done: the host's now, the device's once the work queued
  // on the current stream is done. Two small launches on a GPU; never blocks.
  void progress();
  PeerWatch* watch() { return watch_.get(); }  // null for a single rank

  using CollectiveWait = std::pair<Event, Event>;  // its begin and end
  void time_collective_waits(bool on) { times_waits_ = on; }
  // The waits of the current stream (on a CPU, of the host) in Pending::wait() since the last call.
  std::vector<CollectiveWait> take_collective_waits() { return std::exchange(waits_, {}); }

 private:
  friend class Pending;
  Pending all_reduce(const at::Tensor& in_place, c10d::ReduceOp::RedOpType op);
  // in [W, …] → out [W, …]: out[r] is the part of rank r's `in` that has this rank's number.
  Pending all_to_all(const at::Tensor& out, const at::Tensor& in);
  at::Tensor broadcast(const at::Tensor& on_host);
  // Runs an action that may block on other ranks, under the watch. Errors: unavailable, except that
  // exceptions about this rank's own failure pass through.
  template <class Action>
  auto run_collective(Action action);
  void wait_for(c10d::Work& work);

  int rank_ = 0, world_size_ = 1;
  at::Device device_ = at::kCPU;
  Store store_;
  int made_once_ = 0;  // calls of once_per_host()
  int counters_made_ = 0;
  std::vector<std::int64_t> own_claims_;  // of a single rank's counters
  Backend backend_;
  std::unique_ptr<PeerWatch> watch_;
  double timeout_s_ = 0;
  SumOrder order_ = SumOrder::library;
  bool times_waits_ = false;
  std::vector<CollectiveWait> waits_;
  at::Tensor device_progress_, host_progress_;  // [1] int64; on GPUs, the second is pinned
};

}  // namespace tg
