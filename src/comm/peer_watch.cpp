#include "comm/peer_watch.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <utility>

#include "comm/peer_watch_state.h"

namespace tg {

namespace {

// Longest wait of the destructor for the health thread; a longer one means that the store hangs.
constexpr auto kJoinTime = std::chrono::seconds(3);

}  // namespace

void PeerWatch::State::poll_device() {
  if (!device_count.defined()) return;
  const volatile auto* count = device_count.const_data_ptr<std::int64_t>();
  if (std::exchange(device_count_seen, *count) != device_count_seen) mark_progress();
}

Heartbeat PeerWatch::State::heartbeat(std::int64_t round) {
  const std::lock_guard lock(mutex);
  poll_device();
  Heartbeat own{.round = round,
                .step = step,
                .waits = is_waiting(),
                .idle_s = seconds_since(last_progress),
                .work = ""};
  if (!works.empty()) {
    const auto& work = works.back();
    own.work = work.doing;
    if (work.done > 0) own.work += fmt::format(": {} {} so far", work.done, work.unit);
  }
  return own;
}

std::string PeerWatch::State::cause() const {
  if (check_done) return report.text();
  if (!file_store)
    return "the rendezvous store does not answer either: rank 0 is stopped or gone" +
           report.last_heartbeat(0);
  return "a rank is stopped that has locked the rendezvous store's file: one of" +
         report.last_heartbeats_but(static_cast<std::size_t>(rank));
}

std::string PeerWatch::State::record_text() const {
  const auto path = record ? record->save() : "";
  return path.empty() ? "" : fmt::format("; its last collectives: {}", path);
}

PeerWatch::PeerWatch(const Store& store, int rank, int world_size, double timeout_s,
                     std::shared_ptr<FlightRecord> record)
    : state_(std::make_shared<State>()) {
  state_->store = store->clone();
  state_->file_store = dynamic_cast<const c10d::FileStore*>(store.get()) != nullptr;
  state_->rank = rank;
  state_->world_size = world_size;
  state_->timeout = State::Seconds(timeout_s);
  state_->record = std::move(record);
  state_->report.ranks.resize(static_cast<std::size_t>(world_size));
  timeout_thread_ = std::thread([state = state_] { watch_timeout(*state); });
  health_thread_ = std::thread([state = state_] { serve_health_checks(*state); });
}

PeerWatch::~PeerWatch() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  const bool done =
      state_->changed.wait_for(lock, kJoinTime, [this] { return state_->health_thread_done; });
  lock.unlock();
  timeout_thread_.join();
  // A thread that is blocked in the store is detached; it shares ownership of the state.
  done ? health_thread_.join() : health_thread_.detach();
}

double PeerWatch::set_timeout(double seconds) {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->timeout, State::Seconds(seconds)).count();
}

void PeerWatch::set_step(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->step = step;
}

void PeerWatch::watch_device(const at::Tensor& count) {
  const std::lock_guard lock(state_->mutex);
  state_->device_count = count;
}

void PeerWatch::advance(PeerWatch* watch, auto&& change) {
  if (watch == nullptr) return;
  State& state = *watch->state_;
  const std::lock_guard lock(state.mutex);
  change(state);
  state.mark_progress();
}

void PeerWatch::progress() {
  advance(this, [](State&) {});
}

PeerWatch::Scope::Scope(PeerWatch* watch) : watch_(watch) {
  advance(watch_, [](State& state) { ++state.wait_scopes; });
}

PeerWatch::Scope::~Scope() {
  advance(watch_, [](State& state) { --state.wait_scopes; });
}

PeerWatch::Timeout::Timeout(PeerWatch* watch, double seconds) : watch_(watch) {
  if (watch_ != nullptr) before_s_ = watch_->set_timeout(seconds);
}

PeerWatch::Timeout::~Timeout() {
  if (watch_ != nullptr) watch_->set_timeout(before_s_);
}

PeerWatch::Work::Work(PeerWatch* watch, std::string doing, std::string unit)
    : watch_(watch), listener_([this](std::int64_t amount) { progress(amount); }) {
  advance(watch_, [&](State& state) {
    announced_ =
        state.works.insert(state.works.end(), Announced{std::move(doing), std::move(unit), 0});
  });
}

PeerWatch::Work::~Work() {
  advance(watch_, [this](State& state) { state.works.erase(announced_); });
}

void PeerWatch::Work::progress(std::int64_t amount) {
  advance(watch_, [&](State&) { announced_->done += amount; });
}

std::string PeerWatch::explain_loss(std::string_view cause) {
  const auto step = [this] {
    const std::lock_guard lock(state_->mutex);
    return state_->step;
  }();
  return fmt::format("a peer was lost at step {} ({}); the rank that failed first says why{}", step,
                     cause, state_->record_text());
}

}  // namespace tg
