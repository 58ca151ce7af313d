#include "comm/peer_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "comm/convert.h"
#include "comm/health_check.h"

namespace tg {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr auto kGlance = std::chrono::milliseconds(300);
constexpr auto kAnswerTime = std::chrono::seconds(3);
constexpr auto kCheckTime = std::chrono::seconds(5);  // more: the store does not answer either
// Rank 0 may keep the store; the others still need it for their own health check.
constexpr auto kStoreKeepersDelay = std::chrono::seconds(4);

double seconds_since(Clock::time_point then) {
  return Seconds(Clock::now() - then).count();
}

std::string check_key(std::int64_t round) {
  return fmt::format("health_check/{}", round);
}

std::string heartbeat_key(std::size_t rank) {
  return fmt::format("heartbeat/{}", rank);
}

}  // namespace

struct PeerWatch::State {
  Store store;
  int rank, world_size;
  std::shared_ptr<FlightRecord> record;
  std::mutex mutex;
  std::condition_variable changed;
  Seconds timeout;
  std::int64_t step = 0;
  int depth = 0;                     // of Scopes
  std::list<Work::Announced> works;  // the innermost last
  Clock::time_point got_on = Clock::now();
  Clock::time_point others_got_on;  // as far as heard
  at::Tensor device_count;
  std::int64_t device_count_seen = 0;
  bool stopping = false, attendant_done = false;
  bool check_wanted = false;
  bool checked = false;  // since it was wanted
  HealthReport report;   // the last one

  bool waits() const { return depth > 0 && works.empty(); }
  // Neither this rank nor those that it waits for are known to have got on since.
  Clock::time_point quiet_since() const { return std::max(got_on, others_got_on); }
  void look_at_device() {
    if (!device_count.defined()) return;
    const volatile auto* count = device_count.const_data_ptr<std::int64_t>();
    if (std::exchange(device_count_seen, *count) != device_count_seen) got_on = Clock::now();
  }
  Heartbeat heartbeat(std::int64_t round) {
    const std::lock_guard lock(mutex);
    look_at_device();
    Heartbeat own{round, step, waits(), seconds_since(got_on), ""};
    if (!works.empty()) {
      const auto& work = works.back();
      own.work = work.doing;
      if (work.done > 0) own.work += fmt::format(": {} {} so far", work.done, work.unit);
    }
    return own;
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
  state_->report.ranks.resize(static_cast<std::size_t>(world_size));
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

void PeerWatch::progress() {
  const std::lock_guard lock(state_->mutex);
  state_->got_on = Clock::now();
}

void PeerWatch::watch_device(const at::Tensor& count) {
  const std::lock_guard lock(state_->mutex);
  state_->device_count = count;
}

PeerWatch::Scope::Scope(PeerWatch* watch) : watch_(watch) {
  if (watch_ == nullptr) return;
  State& state = *watch_->state_;
  const std::lock_guard lock(state.mutex);
  ++state.depth;
  state.got_on = Clock::now();
}

PeerWatch::Scope::~Scope() {
  if (watch_ == nullptr) return;
  State& state = *watch_->state_;
  const std::lock_guard lock(state.mutex);
  --state.depth;
  state.got_on = Clock::now();
}

PeerWatch::Work::Work(PeerWatch* watch, std::string doing, std::string unit)
    : watch_(watch), listener_([this](std::int64_t amount) { progress(amount); }) {
  if (watch_ == nullptr) return;
  State& state = *watch_->state_;
  const std::lock_guard lock(state.mutex);
  announced_ =
      state.works.insert(state.works.end(), Announced{std::move(doing), std::move(unit), 0});
  state.got_on = Clock::now();
}

PeerWatch::Work::~Work() {
  if (watch_ == nullptr) return;
  State& state = *watch_->state_;
  const std::lock_guard lock(state.mutex);
  state.works.erase(announced_);
  state.got_on = Clock::now();
}

void PeerWatch::Work::progress(std::int64_t amount) {
  if (watch_ == nullptr) return;
  State& state = *watch_->state_;
  const std::lock_guard lock(state.mutex);
  announced_->done += amount;
  state.got_on = Clock::now();
}

void PeerWatch::keep_time(State& state) {
  std::unique_lock lock(state.mutex);
  Clock::time_point last_check{};
  while (!state.stopping) {
    state.changed.wait_for(lock, kGlance, [&] { return state.stopping; });
    state.look_at_device();
    if (state.stopping || !state.waits()) continue;
    const auto since = state.quiet_since();
    const auto began = Clock::now();
    // One check halfway tells what the others do, should one be silent at the end.
    const bool overdue = began - since > state.timeout;
    if (!overdue && (began - since < state.timeout / 2 || last_check > since)) continue;
    last_check = began;
    state.checked = false;
    state.check_wanted = true;
    state.changed.notify_all();
    state.changed.wait_for(lock, kCheckTime, [&] { return state.stopping || state.checked; });
    if (const auto idle_s = state.report.idle_s(); state.checked && idle_s) {
      const auto ago = std::chrono::duration_cast<Clock::duration>(Seconds(*idle_s));
      state.others_got_on = std::max(state.others_got_on, Clock::now() - ago);
    }
    state.look_at_device();
    // The wait may have ended meanwhile.
    if (state.stopping || !overdue || !state.waits() ||
        Clock::now() - state.quiet_since() <= state.timeout) {
      continue;
    }
    const auto blame =
        state.checked ? state.report.text()
                      : "the place where the ranks met does not answer either: rank 0 is stopped "
                        "or gone" +
                            state.report.last_heard(0);
    error_line(static_cast<int>(ExitCode::unavailable),
               fmt::format("no progress of the other ranks for {:.0f} s (COMM_TIMEOUT_S); {}{}",
                           seconds_since(state.quiet_since()), blame, state.record_text()));
    lock.unlock();
    if (state.rank == 0) std::this_thread::sleep_for(kStoreKeepersDelay);
    ::_exit(static_cast<int>(ExitCode::unavailable));
  }
}

namespace {

// Waits until every rank has answered report.round. Others may make another check meanwhile.
HealthReport collect(const Store& store, HealthReport report,
                     const std::function<void()>& answer_others) {
  const auto until = Clock::now() + kAnswerTime;
  while (true) {
    answer_others();
    bool complete = true;
    for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
      const auto key = heartbeat_key(rank);
      if (report.answered(rank)) continue;
      if (store->check({key})) {
        auto heartbeat = Heartbeat::decode(text_of(store->get(key)));
        const bool is_new =
            !report.ranks[rank] || report.ranks[rank]->heartbeat.round < heartbeat.round;
        if (is_new) report.ranks[rank] = {std::move(heartbeat), Clock::now()};
      }
      complete = complete && report.answered(rank);
    }
    if (complete || Clock::now() > until) return report;
    std::this_thread::sleep_for(kGlance / 3);
  }
}

}  // namespace

void PeerWatch::attend(State& state) {
  std::int64_t round = 1;  // the next health check
  const auto answer = [&] {
    state.store->set(heartbeat_key(static_cast<std::size_t>(state.rank)),
                     bytes_of(state.heartbeat(round).encode()));
    ++round;
  };
  const auto answer_others = [&] {
    while (state.store->check({check_key(round)})) answer();
  };
  std::unique_lock lock(state.mutex);
  while (!state.stopping) {
    const bool wanted = std::exchange(state.check_wanted, false);
    auto report = state.report;
    lock.unlock();
    bool checked = false;
    try {
      answer_others();
      if (wanted) {
        report.round = round;
        state.store->set(check_key(round), bytes_of("wanted"));
        answer();
        report = collect(state.store, std::move(report), answer_others);
        checked = true;
      }
    } catch (const std::exception&) {
      // Without the store the collectives fail as well, and say so.
    }
    lock.lock();
    if (checked) {
      state.report = std::move(report);
      state.checked = true;
    }
    state.changed.notify_all();
    state.changed.wait_for(lock, kGlance, [&] { return state.stopping || state.check_wanted; });
  }
  state.attendant_done = true;
  state.changed.notify_all();
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
