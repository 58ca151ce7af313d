#pragma once
// Collectives between the ranks of a run: NCCL on GPUs, Gloo on CPUs, none for one rank alone.
#include <ATen/ATen.h>

#include <memory>
#include <utility>
#include <vector>

#include "comm/backend.h"
#include "comm/peer_watch.h"
#include "device/moment.h"

namespace tg {

class Communicator;

// A collective under way. What it reads and writes must stay alive and untouched until wait().
class Pending {
 public:
  Pending() = default;  // nothing to wait for
  // A CPU's work is done when this returns; a GPU's current stream waits for it, the host does not.
  // Errors: unavailable (a rank is gone).
  void wait();

 private:
  friend class Communicator;
  Pending(Communicator& communicator, c10::intrusive_ptr<c10d::Work> work,
          std::vector<at::Tensor> tensors)
      : communicator_(&communicator), work_(std::move(work)), tensors_(std::move(tensors)) {}

  Communicator* communicator_ = nullptr;
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> tensors_;
};

class Communicator {
 public:
  // One rank alone: every collective is done at once.
  Communicator() = default;
  // Collective. The device is the one that all tensors will be on; `timeout_s` bounds the wait for
  // ranks that make no progress once begin_training() was called; until then it is 300 s. What is
  // known of the last collectives when one fails goes to `record_folder`; empty: nowhere.
  Communicator(const Rendezvous& meeting, const LaunchInfo& launch, at::Device device,
               double timeout_s, const std::string& record_folder = "");
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Contiguous tensors on the device, of the same shape and dtype on every rank, in the same order
  // of calls. Sums are over ranks.
  Pending sum(const at::Tensor& in_place);
  // in [W · n, …] → out [n, …], this rank's part of the sum.
  Pending reduce_scatter(const at::Tensor& out, const at::Tensor& in);
  // in [n, …] → out [W · n, …].
  Pending all_gather(const at::Tensor& out, const at::Tensor& in);
  // Errors: unavailable.
  void barrier();

  // All ranks have done their first step: from now on one without progress is given up sooner.
  void begin_training();
  // This rank has done a part of its work, such as a micro-batch: its host now, its device once
  // what was queued on the current stream is done. Two small launches on a GPU, and no waiting.
  void progress();
  PeerWatch* watch() { return watch_.get(); }  // null for one rank alone

  using WaitTime = std::pair<Moment, Moment>;
  void time_waits(bool on) { times_waits_ = on; }
  // What the current stream (a CPU: the host) waited in Pending::wait() since the last call.
  std::vector<WaitTime> take_wait_times() { return std::exchange(wait_times_, {}); }

 private:
  friend class Pending;
  // Runs what may block or fail because of the other ranks. Errors: unavailable; memory that this
  // rank lacks goes through as it is.
  template <class Action>
  auto together(Action action);
  void wait_for(c10d::Work& work);

  int rank_ = 0, world_size_ = 1;
  at::Device device_ = at::kCPU;
  Backend backend_;
  std::unique_ptr<PeerWatch> watch_;
  double timeout_s_ = 0;
  bool times_waits_ = false;
  std::vector<WaitTime> wait_times_;
  at::Tensor device_progress_, host_progress_;  // [1] int64; on GPUs, the second is pinned
};

}  // namespace tg
