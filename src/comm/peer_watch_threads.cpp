// The two threads of a PeerWatch. Only the health thread uses the store, which may hang or be gone
// with its rank; the timeout thread never does.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "comm/convert.h"
#include "comm/peer_watch_state.h"

namespace tg {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr auto kPollInterval = std::chrono::milliseconds(300);
constexpr auto kAnswerTime = std::chrono::seconds(3);  // timeout of all ranks' heartbeats
// Timeout of a health check; a longer one means that the store does not answer.
constexpr auto kCheckTime = std::chrono::seconds(5);
// Rank 0 exits late: its process may serve the TCPStore, which the others need for their own health
// checks.
constexpr auto kRank0ExitDelay = std::chrono::seconds(4);

std::string check_key(std::int64_t round) {
  return fmt::format("health_check/{}", round);
}

std::string heartbeat_key(std::size_t rank) {
  return fmt::format("heartbeat/{}", rank);
}

// Polls the store until every rank has answered report.round, for at most kAnswerTime. Calls
// `answer_others` meanwhile, which answers other ranks' health checks.
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
    std::this_thread::sleep_for(kPollInterval / 3);
  }
}

}  // namespace

// Requests a check from the health thread, waits for its report and updates the peers' progress.
void PeerWatch::check_health(State& state, std::unique_lock<std::mutex>& lock) {
  state.check_done = false;
  state.check_requested = true;
  state.changed.notify_all();
  state.changed.wait_for(lock, kCheckTime, [&] { return state.stopping || state.check_done; });
  if (const auto idle_s = state.report.idle_s(); state.check_done && idle_s) {
    const auto ago = std::chrono::duration_cast<Clock::duration>(Seconds(*idle_s));
    state.last_peer_progress = std::max(state.last_peer_progress, Clock::now() - ago);
  }
}

void PeerWatch::end_process(State& state, std::unique_lock<std::mutex>& lock) {
  const Seconds idle = Clock::now() - state.idle_since();
  error_line(static_cast<int>(ExitCode::unavailable),
             fmt::format("no progress of the other ranks for {:.0f} s (COMM_TIMEOUT_S); {}{}",
                         idle.count(), state.cause(), state.record_text()));
  lock.unlock();
  if (state.rank == 0) std::this_thread::sleep_for(kRank0ExitDelay);
  ::_exit(static_cast<int>(ExitCode::unavailable));
}

void PeerWatch::watch_timeout(State& state) {
  std::unique_lock lock(state.mutex);
  Clock::time_point last_check{};
  while (!state.stopping) {
    state.changed.wait_for(lock, kPollInterval, [&] { return state.stopping; });
    state.poll_device();
    if (state.stopping || !state.is_waiting()) continue;
    const auto since = state.idle_since();
    const auto now = Clock::now();
    // The check at half the timeout records every rank's work; the final check then reports the
    // last known work of a rank that no longer answers.
    const bool overdue = now - since > state.timeout;
    if (!overdue && (now - since < state.timeout / 2 || last_check > since)) continue;
    last_check = now;
    check_health(state, lock);
    state.poll_device();
    // The wait may have ended during the check.
    const bool still_waiting = !state.stopping && state.is_waiting();
    if (overdue && still_waiting && Clock::now() - state.idle_since() > state.timeout) {
      end_process(state, lock);
    }
  }
}

void PeerWatch::serve_health_checks(State& state) {
  std::int64_t round = 1;  // number of the next health check
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
    const bool requested = std::exchange(state.check_requested, false);
    auto report = state.report;
    lock.unlock();
    bool done = false;
    try {
      answer_others();
      if (requested) {
        report.round = round;
        state.store->set(check_key(round), bytes_of("requested"));
        answer();
        report = collect(state.store, std::move(report), answer_others);
        done = true;
      }
    } catch (const std::exception&) {
      // The store is gone: the collectives fail too, and report it.
    }
    lock.lock();
    if (done) {
      state.report = std::move(report);
      state.check_done = true;
    }
    state.changed.notify_all();
    state.changed.wait_for(lock, kPollInterval,
                           [&] { return state.stopping || state.check_requested; });
  }
  state.health_thread_done = true;
  state.changed.notify_all();
}

}  // namespace tg
