#include "checkpoint/run_end.h"

#include <chrono>

#include "base/program.h"
#include "base/strings.h"
#include "comm/convert.h"

namespace tg {

namespace {

// Keys in the store: the run's outcome; whether rank 0 has printed its line.
const std::string kOutcome = "run_end/outcome", kLine = "run_end/line";
const std::string kStopped = "stopped", kFinished = "finished";

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr int kPollsOfStore = 10;    // polls per read of the store
constexpr int kPollsOfOthers = 250;  // 5 s

// Returns the key that a rank sets when it calls exit_together().
std::string key_of(int rank) {
  return fmt::format("run_end/rank_{}", rank);
}

}  // namespace

RunEnd::RunEnd(const Store& store, int rank, int world_size, std::function<bool()> stop_requested)
    : store_(store ? store->clone() : store),
      rank_(rank),
      world_size_(world_size),
      stop_requested_(std::move(stop_requested)) {}

void RunEnd::watch(std::function<void()> stop) {
  thread_ = std::jthread(
      [this, stop = std::move(stop)](const std::stop_token& closed) { poll(closed, stop); });
}

void RunEnd::poll(const std::stop_token& closed, const std::function<void()>& stop) {
  for (int polls = 0; !closed.stop_requested() && decided() != Outcome::finished; ++polls) {
    const bool is_stopped = stop_requested_() || decided() == Outcome::stopped ||
                            (polls % kPollsOfStore == 0 && is_stopped_in_store());
    if (is_stopped && decide(Outcome::stopped) == Outcome::stopped) return stop();
    std::this_thread::sleep_for(kPoll);
  }
}

bool RunEnd::finish() {
  const auto outcome = decide(Outcome::finished);
  thread_.join();
  return outcome == Outcome::finished;
}

// Returns the outcome for all ranks: the first proposal that reaches the store.
RunEnd::Outcome RunEnd::decide(Outcome proposed) {
  const std::lock_guard lock(mutex_);
  if (decided_ != Outcome::undecided) return decided_;
  if (!store_) return decided_ = proposed;
  try {
    const auto value = bytes_of(proposed == Outcome::stopped ? kStopped : kFinished);
    const auto first = text_of(store_->compareSet(kOutcome, {}, value));
    return decided_ = first == kStopped ? Outcome::stopped : Outcome::finished;
  } catch (const std::exception& error) {
    fail(ExitCode::unavailable,
         "a peer was lost at the end of the run ({}); the rank that failed first says why",
         first_line(error.what()));
  }
}

RunEnd::Outcome RunEnd::decided() {
  const std::lock_guard lock(mutex_);
  return decided_;
}

// Returns false if the store is gone, with its rank: the next collective reports that.
bool RunEnd::is_stopped_in_store() const {
  try {
    return store_ && store_->check({kOutcome}) && text_of(store_->get(kOutcome)) == kStopped;
  } catch (const std::exception&) {
    return false;
  }
}

void RunEnd::exit_together(const Error& error) const {
  if (!store_) end_process(error, [] {});
  if (rank_ != 0) {
    set(key_of(rank_));
    wait_for({kLine});
    end_process(error.exit_code());
  }
  std::vector<std::string> others;
  for (int rank = 1; rank < world_size_; ++rank) others.push_back(key_of(rank));
  wait_for(others);
  end_process(error, [this] { set(kLine); });
}

void RunEnd::set(const std::string& key) const {
  try {
    store_->set(key, bytes_of("1"));
  } catch (const std::exception&) {  // rank 0 has exited, and with it the store
  }
}

void RunEnd::wait_for(const std::vector<std::string>& keys) const {
  try {
    for (int polls = 0; polls < kPollsOfOthers && !store_->check(keys); ++polls)
      std::this_thread::sleep_for(kPoll);
  } catch (const std::exception&) {  // rank 0 has exited, and with it the store
  }
}

}  // namespace tg
