#include "comm/peer_watch.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "comm/convert.h"

namespace tg {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr auto kGlance = std::chrono::milliseconds(300);
constexpr auto kAnswerTime = std::chrono::seconds(2);
constexpr auto kRollTime = std::chrono::seconds(5);  // more: the store does not answer either
// Rank 0 may keep the store; the others still need it for their own roll.
constexpr auto kStoreKeepersDelay = std::chrono::seconds(4);

}  // namespace

struct PeerWatch::State {
  Store store;
  int rank, world_size;
  std::shared_ptr<FlightRecord> record;
  std::mutex mutex;
  std::condition_variable changed;
  Seconds timeout;
  std::int64_t step = 0;
  int depth = 0;  // of Scopes
  Clock::time_point waits_since;
  bool stopping = false, attendant_done = false;
  bool roll_wanted = false;
  std::optional<std::string> roll;

  bool overdue() const { return depth > 0 && Clock::now() - waits_since > timeout; }
  std::string step_text() {
    const std::lock_guard lock(mutex);
    return std::to_string(step);
  }
  std::string record_text() const {
    const auto path = record ? record->save() : "";
    return path.empty() ? "" : fmt::format("; its last collectives: {}", path);
  }
};

PeerWatch::PeerWatch(const Store& store, int rank, int world_size, double timeout_s,
                     std::shared_ptr<FlightRecord> record)
    : state_(std::make_shared<State>()) {
  state_->store = store->clone();
  state_->rank = rank;
  state_->world_size = world_size;
  state_->timeout = Seconds(timeout_s);
  state_->record = std::move(record);
  clock_ = std::thread([state = state_] { keep_time(*state); });
  attendant_ = std::thread([state = state_] { attend(*state); });
}

PeerWatch::~PeerWatch() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  const bool done =
      state_->changed.wait_for(lock, kAnswerTime, [this] { return state_->attendant_done; });
  lock.unlock();
  clock_.join();
  // One that waits for a store which never answers is left behind, with the state it needs.
  done ? attendant_.join() : attendant_.detach();
}

void PeerWatch::set_timeout(double seconds) {
  const std::lock_guard lock(state_->mutex);
  state_->timeout = Seconds(seconds);
}

void PeerWatch::set_step(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->step = step;
}

PeerWatch::Scope::Scope(PeerWatch* watch) : watch_(watch) {
  if (watch_ == nullptr) return;
  State& state = *watch_->state_;
  const std::lock_guard lock(state.mutex);
  if (state.depth++ == 0) state.waits_since = Clock::now();
}

PeerWatch::Scope::~Scope() {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->state_->mutex);
  --watch_->state_->depth;
}

void PeerWatch::keep_time(State& state) {
  std::unique_lock lock(state.mutex);
  while (!state.stopping) {
    state.changed.wait_for(lock, kGlance, [&] { return state.stopping; });
    if (state.stopping || !state.overdue()) continue;
    const auto since = state.waits_since;
    state.roll.reset();
    state.roll_wanted = true;
    state.changed.notify_all();
    state.changed.wait_for(lock, kRollTime, [&] { return state.stopping || state.roll; });
    // The wait may have ended meanwhile.
    if (state.stopping || state.waits_since != since || !state.overdue()) continue;
    const double spent = Seconds(Clock::now() - since).count();
    error_line(
        static_cast<int>(ExitCode::unavailable),
        fmt::format("no answer from the other ranks for {:.0f} s (COMM_TIMEOUT_S); {}{}", spent,
                    state.roll.value_or("the place where the ranks met does not answer "
                                        "either: rank 0 is stopped or gone"),
                    state.record_text()));
    lock.unlock();
    if (state.rank == 0) std::this_thread::sleep_for(kStoreKeepersDelay);
    ::_exit(static_cast<int>(ExitCode::unavailable));
  }
}

namespace {

void answer(const Store& store, int rank, const std::string& step) {
  store->set(fmt::format("here/{}", rank), bytes_of(step));
}

std::string call_the_roll(const Store& store, int world_size) {
  std::string silent, present;
  store->set("roll", bytes_of("called"));
  std::this_thread::sleep_for(kAnswerTime);
  for (int rank = 0; rank < world_size; ++rank) {
    const auto key = fmt::format("here/{}", rank);
    if (!store->check({key})) {
      silent += fmt::format(" {}", rank);
      continue;
    }
    present += fmt::format(" {} (step {})", rank, text_of(store->get(key)));
  }
  if (silent.empty()) return fmt::format("all live, one of them is too slow:{}", present);
  return fmt::format("stopped or gone: rank{}; alive:{}", silent, present);
}

}  // namespace

void PeerWatch::attend(State& state) {
  bool answered = false;
  std::unique_lock lock(state.mutex);
  while (!state.stopping) {
    const bool calls = std::exchange(state.roll_wanted, false);
    lock.unlock();
    std::optional<std::string> roll;
    try {
      if (!answered && (calls || state.store->check({"roll"}))) {
        answer(state.store, state.rank, state.step_text());
        answered = true;
      }
      if (calls) roll = call_the_roll(state.store, state.world_size);
    } catch (const std::exception&) {
      // Without the store the collectives fail as well, and say so.
    }
    lock.lock();
    if (roll) state.roll = std::move(roll);
    state.changed.notify_all();
    state.changed.wait_for(lock, kGlance, [&] { return state.stopping || state.roll_wanted; });
  }
  state.attendant_done = true;
  state.changed.notify_all();
}

std::string PeerWatch::explain_loss(std::string_view cause) {
  return fmt::format("a peer was lost at step {} ({}); the rank that failed first says why{}",
                     state_->step_text(), cause, state_->record_text());
}

}  // namespace tg
