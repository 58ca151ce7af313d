#include "comm/peer_watch.h"

#include <unistd.h>

#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace tg {

PeerWatch::PeerWatch(Store store, int rank, int world_size, double timeout_s)
    : store_(store->clone()), rank_(rank), world_size_(world_size), timeout_(timeout_s) {
  thread_ = std::thread([this] { run(); });
}

PeerWatch::~PeerWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PeerWatch::set_timeout(double seconds) {
  const std::lock_guard lock(mutex_);
  timeout_ = std::chrono::duration<double>(seconds);
}

void PeerWatch::set_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

PeerWatch::Scope::Scope(PeerWatch* watch) : watch_(watch) {
  if (watch_ == nullptr) return;
  {
    const std::lock_guard lock(watch_->mutex_);
    watch_->waiting_ = true;
    watch_->waits_since_ = Clock::now();
  }
}

PeerWatch::Scope::~Scope() {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->mutex_);
  watch_->waiting_ = false;
}

void PeerWatch::run() {
  bool answered = false;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const std::chrono::duration<double> spent = Clock::now() - waits_since_;
    const bool too_long = waiting_ && spent > timeout_;
    lock.unlock();
    if (too_long) {
      error_line(static_cast<int>(ExitCode::unavailable),
                 fmt::format("no answer from the other ranks for {:.0f} s (COMM_TIMEOUT_S); {}",
                             spent.count(), call_the_roll()));
      ::_exit(static_cast<int>(ExitCode::unavailable));
    }
    try {
      if (!answered && store_->check({"roll"})) answer(), answered = true;
    } catch (const std::exception&) {
      // Without the store the collective fails as well, and says so.
    }
    lock.lock();
    changed_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stopping_; });
  }
}

void PeerWatch::answer() {
  std::string step;
  {
    const std::lock_guard lock(mutex_);
    step = std::to_string(step_);
  }
  store_->set(fmt::format("here/{}", rank_), std::vector<std::uint8_t>(step.begin(), step.end()));
}

std::string PeerWatch::call_the_roll() {
  std::string silent, present;
  try {
    store_->set("roll", std::vector<std::uint8_t>{1});
    answer();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    for (int rank = 0; rank < world_size_; ++rank) {
      const auto key = fmt::format("here/{}", rank);
      if (!store_->check({key})) {
        silent += fmt::format(" {}", rank);
        continue;
      }
      const auto step = store_->get(key);
      present += fmt::format(" {} (step {})", rank, std::string(step.begin(), step.end()));
    }
  } catch (const std::exception&) {
    return "the place where the ranks met does not answer either: rank 0 or its host is gone";
  }
  if (silent.empty()) return fmt::format("all live, one of them is too slow:{}", present);
  return fmt::format("stopped or gone: rank{}; alive:{}", silent, present);
}

std::string PeerWatch::explain_loss(std::string_view cause) {
  long step = 0;
  {
    const std::lock_guard lock(mutex_);
    step = static_cast<long>(step_);
  }
  return fmt::format("a peer was lost at step {} ({}); the rank that failed first says why", step,
                     cause);
}

}  // namespace tg
