#pragma once
// Collectives between the ranks of a run: NCCL on GPUs, Gloo on CPUs, no-ops for a single rank.
#include <ATen/ATen.h>

#include <exception>
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

// Returns whether a collective failed because this rank ran out of memory or threads, or because
// its own GPU failed: then no peer is lost. A failed GPU fails the next CUDA call, whatever that
// call is for.
bool is_own_failure(const std::exception& error);

// Summation order of the terms of a reduction over ranks.
enum class SumOrder {
  library,  // chosen by the library: NCCL's may differ between runs; Gloo's is fixed
  // By rank, deterministic for a number of ranks and a shape: the terms are gathered where they are
  // added; half-precision terms are accumulated in fp32 and rounded once. Until wait() returns, an
  // all-reduce of n elements over W ranks takes a workspace of W·n elements, a reduce-scatter a
  // workspace of its input's size.
  ranks,
};
// `deterministic`: runs must be bit-identical.
SumOrder choose_sum_order(bool deterministic, at::Device device);

// Handle of an asynchronous collective. It keeps the tensors alive; do not read or write them
// before wait() returns.
class Pending {
 public:
  Pending() = default;  // nothing to wait for
  // On a CPU blocks until the collective is done; on a GPU makes the current stream wait, not the
  // host. Throws Error(unavailable) if a rank is lost.
  void wait();

 private:
  friend class Communicator;
  Pending(Communicator& communicator, c10::intrusive_ptr<c10d::Work> work,
          std::vector<at::Tensor> tensors)
      : communicator_(&communicator), work_(std::move(work)), tensors_(std::move(tensors)) {}
  // Makes wait() write the sums over ranks of `terms` [W, n] to `sum`, which has n elements.
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
  // Communicator of a single rank: collectives are no-ops or local copies.
  Communicator() = default;
  // Collective. All tensors must be on `device`. `timeout_s` bounds the wait for ranks that make no
  // progress; until begin_training() the bound is at least 300 s. When a collective fails, the
  // flight record is saved in `record_folder`; empty: not saved. Throws Error(unavailable).
  Communicator(const Rendezvous& rendezvous, const LaunchInfo& launch, at::Device device,
               double timeout_s, SumOrder order, const std::string& record_folder = "");
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Collectives on contiguous tensors on the device. Every rank calls them in the same order, with
  // the same shapes and dtypes.

  // All-reduce in place: sum or elementwise maximum over ranks.
  Pending sum(const at::Tensor& in_place);
  Pending max(const at::Tensor& in_place);
  // in [W · n, …] → out [n, …]: this rank's chunk of the sum over ranks.
  Pending reduce_scatter(const at::Tensor& out, const at::Tensor& in);
  // in [n, …] → out [W · n, …].
  Pending all_gather(const at::Tensor& out, const at::Tensor& in);
  // Throws Error(unavailable).
  void barrier();
  // Returns rank 0's text on every rank; ignores the other ranks' text. Throws Error(unavailable).
  std::string broadcast(const std::string& text);
  // Calls `make` on one rank of each host, and returns its text on all ranks of that host; empty if
  // it failed, which that rank reports. Throws Error(unavailable) and what `make` throws.
  std::string once_per_host(const std::function<std::string()>& make);
  // Makes a counter that all ranks share and returns its id. Every rank must make its counters in
  // the same order. Does not wait for other ranks.
  int make_counter() { return counters_made_++; }
  // Atomically claims the next `count` of a counter's numbers 0, 1, 2, …, each of which goes to one
  // rank; returns the first. Throws Error(unavailable).
  std::int64_t claim(int counter, std::int64_t count = 1);
  // Returns the lowest rank whose `value` is true; nothing if there is none. Throws
  // Error(unavailable).
  std::optional<int> first_rank_with(bool value);

  // Collective, called after the first step: from now on the timeout is `timeout_s`. Throws
  // Error(unavailable).
  void begin_training();
  // Reports progress, such as a finished micro-batch, to the PeerWatch: the host's at once, the
  // device's when the work queued on the current stream is done. Costs two small launches on a GPU;
  // never blocks.
  void progress();
  PeerWatch* watch() { return watch_.get(); }  // null for a single rank

  using CollectiveWait = std::pair<Event, Event>;  // begin and end
  void time_collective_waits(bool on) { times_waits_ = on; }
  // Returns the waits in Pending::wait() since the last call: of the current stream, on a CPU of
  // the host.
  std::vector<CollectiveWait> take_collective_waits() { return std::exchange(waits_, {}); }

 private:
  friend class Pending;
  // Starts a collective, action() → its work, on these tensors.
  Pending start(std::vector<at::Tensor> tensors, auto action);
  Pending all_reduce(const at::Tensor& in_place, c10d::ReduceOp::RedOpType op);
  // in [W, …] → out [W, …]: out[r] is rank r's in[rank()].
  Pending all_to_all(const at::Tensor& out, const at::Tensor& in);
  at::Tensor broadcast(const at::Tensor& on_host);
  // Runs an action that may block on other ranks, under the PeerWatch. Throws Error(unavailable) if
  // a peer is lost; exceptions about this rank's own failure pass through.
  auto run_collective(auto action);
  void wait_for(c10d::Work& work);

  int rank_ = 0, world_size_ = 1;
  at::Device device_ = at::kCPU;
  Store store_;
  int made_once_ = 0;  // calls of once_per_host()
  int counters_made_ = 0;
  std::vector<std::int64_t> own_claims_;  // next numbers of a single rank's counters
  Backend backend_;
  std::unique_ptr<PeerWatch> watch_;
  double timeout_s_ = 0;
  SumOrder order_ = SumOrder::library;
  bool times_waits_ = false;
  std::vector<CollectiveWait> waits_;
  at::Tensor device_progress_, host_progress_;  // [1] int64, on GPUs only; the host's is pinned
};

}  // namespace tg
