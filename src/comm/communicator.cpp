#include "comm/communicator.h"

#include <c10/util/Exception.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/program.h"
#include "base/strings.h"
#include "comm/convert.h"

namespace tg {

namespace {

// Seconds by which the backend's connection timeout exceeds the PeerWatch's, so that the watch,
// which names the rank at fault, exits first.
constexpr double kBackendSlack_s = 20;
// Timeout of the connected backend, effectively none; the PeerWatch alone ends waits. A backend
// counts from a collective's launch and so includes this rank's own queued work and the others'
// long work.
constexpr auto kBackendLimit = std::chrono::hours(24 * 365);

// Returns a text that is equal in processes of one host and one container, which can open each
// other's files in /proc: the kernel's boot id and the PID namespace. Empty: unknown.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::error_code error;
  const auto space = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  if (!std::getline(file, boot) || error) return "";
  return boot + " " + space.string();
}

}  // namespace

bool is_own_failure(const std::exception& error) {
  // LibTorch's name for an error of a CUDA call that NCCL made; NCCL's own errors have a type.
  constexpr std::string_view kCudaErrorInNccl = "ncclUnhandledCudaError";
  return is_out_of_threads(error) || !out_of_memory_line(error).empty() ||
         dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr ||
         std::string_view(error.what()).find(kCudaErrorInNccl) != std::string_view::npos;
}

SumOrder choose_sum_order(bool deterministic, at::Device device) {
  return deterministic && device.is_cuda() ? SumOrder::ranks : SumOrder::library;
}

auto Communicator::run_collective(auto action) {
  try {
    const PeerWatch::Scope waiting(watch_.get());
    return action();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (is_own_failure(error)) throw;
    fail(ExitCode::unavailable, "{}", watch_->explain_loss(first_line(error.what())));
  }
}

Communicator::Communicator(const Rendezvous& rendezvous, const LaunchInfo& launch,
                           at::Device device, double timeout_s, SumOrder order,
                           const std::string& record_folder)
    : rank_(launch.rank),
      world_size_(launch.world_size),
      device_(device),
      timeout_s_(timeout_s),
      order_(order) {
  if (world_size_ == 1) return;
  store_ = rendezvous.store;
  const double start_s = std::max(kStartTime_s, timeout_s);
  const auto limit = milliseconds(start_s + kBackendSlack_s);
  std::shared_ptr<FlightRecord> record;
  if (!record_folder.empty()) {
    record = std::make_shared<FlightRecord>(
        record_folder, rank_, device.is_cuda() ? dump_nccl_flight_record : dump_gloo_flight_record);
    if (device.is_cuda()) record->save_for_watchdog();
  }
  watch_ = std::make_unique<PeerWatch>(rendezvous.store, rank_, world_size_, start_s, record);
  run_collective([&] {
    backend_ = device.is_cuda() ? make_nccl(rendezvous, launch, limit)
                                : make_gloo(rendezvous, launch, limit);
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

std::string Communicator::once_per_host(const std::function<std::string()>& make) {
  if (!store_) return make();
  const auto host = host_identity();
  const auto key =
      fmt::format("once/{}/{}", host.empty() ? fmt::format("rank {}", rank_) : host, made_once_++);
  return run_collective([&] {
    if (store_->add(key + "/claimed", 1) > 1) return text_of(store_->get(key + "/made"));
    std::string made;
    try {
      made = make();
    } catch (...) {
      store_->set(key + "/made", bytes_of(""));  // the other ranks wait for this key
      throw;
    }
    store_->set(key + "/made", bytes_of(made));
    return made;
  });
}

std::int64_t Communicator::claim(int counter, std::int64_t count) {
  if (store_) {
    return run_collective(
        [&] { return store_->add(fmt::format("claimed/{}", counter), count) - count; });
  }
  own_claims_.resize(static_cast<std::size_t>(counters_made_));
  auto& next = own_claims_[static_cast<std::size_t>(counter)];
  return std::exchange(next, next + count);
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
  // The destructor of a failed process group may block forever: leak it.
  if (std::uncaught_exceptions() > 0) {
    backend_.release();
    return;
  }
  try {
    const PeerWatch::Scope waiting(watch_.get());
    backend_->shutdown();
  } catch (const std::exception&) {
    // All results are written; a rank that failed reports its own error.
  }
}

void Communicator::wait_for(c10d::Work& work) {
  const auto stream = compute_stream(device_);
  std::optional<Event> began;
  if (times_waits_) began.emplace(stream);
  run_collective([&] { work.wait(); });
  if (began) waits_.emplace_back(std::move(*began), Event(stream));
}

void Pending::wait() {
  if (!work_) return;
  communicator_->wait_for(*work_);
  if (terms_.defined()) {
    const at::NoGradGuard no_grad;
    auto sum = sum_.view({-1});
    at::sum_out(sum, terms_, /*dim=*/0);
  }
  *this = {};
}

Pending Communicator::start(std::vector<at::Tensor> tensors, auto action) {
  return {*this, run_collective([&] { return action(tensors); }), std::move(tensors)};
}

Pending Communicator::sum(const at::Tensor& in_place) {
  if (!backend_ || order_ == SumOrder::library) return all_reduce(in_place, c10d::ReduceOp::SUM);
  const auto terms = at::empty({world_size_, in_place.numel()}, in_place.options());
  return {all_gather(terms, in_place.view({1, -1})), terms, in_place};
}

Pending Communicator::max(const at::Tensor& in_place) {
  return all_reduce(in_place, c10d::ReduceOp::MAX);
}

Pending Communicator::all_reduce(const at::Tensor& in_place, c10d::ReduceOp::RedOpType op) {
  if (!backend_) return {};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return start({in_place}, [&](auto& tensors) { return backend_->allreduce(tensors, options); });
}

Pending Communicator::reduce_scatter(const at::Tensor& out, const at::Tensor& in) {
  if (!backend_) {
    out.copy_(in);
    return {};
  }
  if (order_ == SumOrder::ranks) {
    const auto terms = at::empty({world_size_, out.numel()}, in.options());
    return {all_to_all(terms, in), terms, out};
  }
  c10d::ReduceScatterOptions options;
  options.reduceOp = c10d::ReduceOp::SUM;
  return start({out, in}, [&](auto& tensors) {
    return backend_->_reduce_scatter_base(tensors[0], tensors[1], options);
  });
}

Pending Communicator::all_to_all(const at::Tensor& out, const at::Tensor& in) {
  std::vector<std::int64_t> equal_parts;
  return start({out, in}, [&](auto& tensors) {
    return backend_->alltoall_base(tensors[0], tensors[1], equal_parts, equal_parts);
  });
}

Pending Communicator::all_gather(const at::Tensor& out, const at::Tensor& in) {
  if (!backend_) {
    out.copy_(in);
    return {};
  }
  return start({out, in}, [&](auto& tensors) {
    return backend_->_allgather_base(tensors[0], tensors[1], {});
  });
}

void Communicator::barrier() {
  if (!backend_) return;
  const auto one = at::ones({1}, at::TensorOptions(device_).dtype(at::kFloat));
  sum(one).wait();
  if (device_.is_cuda()) run_collective([&] { one.cpu(); });
}

// Returns rank 0's tensor, in host memory.
at::Tensor Communicator::broadcast(const at::Tensor& on_host) {
  std::vector<at::Tensor> tensors{on_host.to(device_)};
  return run_collective([&] {
    backend_->broadcast(tensors)->wait();
    return tensors[0].cpu();
  });
}

std::string Communicator::broadcast(const std::string& text) {
  if (!backend_) return text;
  const auto size = broadcast(at::scalar_tensor(std::ssize(text), at::kLong));
  auto bytes = at::zeros({*size.const_data_ptr<std::int64_t>()}, at::kByte);
  if (bytes.numel() == 0) return "";
  if (rank_ == 0) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  bytes = broadcast(bytes);
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

std::optional<int> Communicator::first_rank_with(bool value) {
  if (!backend_) return value ? std::optional(0) : std::nullopt;
  // The lowest rank has the highest priority; 0: no rank has a true value.
  const auto priority = at::scalar_tensor(value ? world_size_ - rank_ : 0,
                                          at::TensorOptions(device_).dtype(at::kLong));
  max(priority).wait();
  const auto on_host = run_collective([&] { return priority.cpu(); });
  const auto highest = static_cast<int>(*on_host.const_data_ptr<std::int64_t>());
  return highest == 0 ? std::nullopt : std::optional(world_size_ - highest);
}

void Communicator::begin_training() {
  if (!backend_) return;
  // Without the barrier, ranks with the shorter timeout could wait for a rank in its first step.
  barrier();
  watch_->set_timeout(timeout_s_);
}

}  // namespace tg
