#include "comm/communicator.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>

#include "base/error.h"
#include "base/exhausted.h"
#include "base/first_line.h"
#include "comm/convert.h"

namespace tg {

namespace {

// For connecting: later than the watch, which knows more, and its health check.
constexpr double kBackendSlack_s = 20;
// Afterwards the watch alone decides. The backends would count from a collective's launch, which
// includes this rank's own work before it and the others' long work.
constexpr auto kBackendLimit = std::chrono::hours(24 * 365);

}  // namespace

template <class Action>
auto Communicator::together(Action action) {
  try {
    const PeerWatch::Scope waiting(watch_.get());
    return action();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    // What this rank lacks is not the others' failure.
    if (is_out_of_threads(error) || !out_of_memory_line(error).empty()) throw;
    fail(ExitCode::unavailable, "{}", watch_->explain_loss(first_line(error.what())));
  }
}

Communicator::Communicator(const Rendezvous& meeting, const LaunchInfo& launch, at::Device device,
                           double timeout_s, const std::string& record_folder)
    : rank_(launch.rank), world_size_(launch.world_size), device_(device), timeout_s_(timeout_s) {
  if (world_size_ == 1) return;
  const double start_s = std::max(kStartTime_s, timeout_s);
  const auto limit = milliseconds(start_s + kBackendSlack_s);
  std::shared_ptr<FlightRecord> record;
  if (!record_folder.empty()) {
    record = std::make_shared<FlightRecord>(record_folder, rank_,
                                            device.is_cuda() ? nccl_record : gloo_record);
    if (device.is_cuda()) record->save_for_watchdog();
  }
  watch_ = std::make_unique<PeerWatch>(meeting.store, rank_, world_size_, start_s, record);
  together([&] {
    backend_ =
        device.is_cuda() ? make_nccl(meeting, launch, limit) : make_gloo(meeting, launch, limit);
  });
  backend_->setTimeout(kBackendLimit);
  if (device.is_cuda()) {
    const auto count = at::TensorOptions(at::kLong);
    device_progress_ = at::zeros({1}, count.device(device));
    host_progress_ = at::zeros({1}, count.pinned_memory(true));
    watch_->watch_device(host_progress_);
  }
  barrier();
}

void Communicator::progress() {
  if (!watch_) return;
  watch_->progress();
  if (!device_progress_.defined()) return;
  device_progress_.add_(1);
  host_progress_.copy_(device_progress_, /*non_blocking=*/true);
}

Communicator::~Communicator() {
  if (!backend_) return;
  // Of a broken group nothing is orderly any more: waiting for its end could be for ever.
  if (std::uncaught_exceptions() > 0) {
    backend_.release();
    return;
  }
  try {
    const PeerWatch::Scope waiting(watch_.get());
    backend_->shutdown();
  } catch (const std::exception&) {
    // All results are written; another rank's end is that rank's to explain.
  }
}

void Communicator::wait_for(c10d::Work& work) {
  const auto stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  std::optional<Moment> began;
  if (times_waits_) began.emplace(stream);
  together([&] { work.wait(); });
  if (began) wait_times_.emplace_back(std::move(*began), Moment(stream));
}

void Pending::wait() {
  if (!work_) return;
  communicator_->wait_for(*work_);
  work_.reset();
  tensors_.clear();
}

Pending Communicator::sum(const at::Tensor& in_place) {
  if (!backend_) return {};
  std::vector<at::Tensor> tensors{in_place};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::SUM;
  auto work = together([&] { return backend_->allreduce(tensors, options); });
  return {*this, std::move(work), std::move(tensors)};
}

Pending Communicator::reduce_scatter(const at::Tensor& out, const at::Tensor& in) {
  if (!backend_) {
    out.copy_(in);
    return {};
  }
  at::Tensor to = out, from = in;
  c10d::ReduceScatterOptions options;
  options.reduceOp = c10d::ReduceOp::SUM;
  auto work = together([&] { return backend_->_reduce_scatter_base(to, from, options); });
  return {*this, std::move(work), {to, from}};
}

Pending Communicator::all_gather(const at::Tensor& out, const at::Tensor& in) {
  if (!backend_) {
    out.copy_(in);
    return {};
  }
  at::Tensor to = out, from = in;
  auto work = together([&] { return backend_->_allgather_base(to, from, {}); });
  return {*this, std::move(work), {to, from}};
}

void Communicator::barrier() {
  if (!backend_) return;
  const auto one = at::ones({1}, at::TensorOptions(device_).dtype(at::kFloat));
  sum(one).wait();
  if (device_.is_cuda()) together([&] { one.cpu(); });
}

void Communicator::begin_training() {
  if (!backend_) return;
  // Together, or a rank that is still at its first step would be given up by one that is past it.
  barrier();
  watch_->set_timeout(timeout_s_);
}

}  // namespace tg
