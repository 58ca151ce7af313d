#include "train/run_end.h"

#include <chrono>

#include "base/first_line.h"
#include "base/program.h"
#include "comm/convert.h"

namespace tg {

namespace {

// Keys of the store: how the run ends; rank 0 has printed its line.
const std::string kWay = "run_end/way", kLine = "run_end/line";
const std::string kStopped = "stopped", kFinished = "finished";

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr int kPollsOfStore = 10;    // the store is asked at every tenth poll
constexpr int kPollsOfOthers = 250;  // 5 s

// The rank has come to leave().
std::string key_of(int rank) {
  return fmt::format("run_end/rank_{}", rank);
}

}  // namespace

RunEnd::RunEnd(const Store& store, int rank, int world_size, std::function<bool()> told)
    : store_(store ? store->clone() : store),
      rank_(rank),
      world_size_(world_size),
      told_(std::move(told)) {}

void RunEnd::watch(std::function<void()> stop) {
  thread_ = std::jthread(
      [this, stop = std::move(stop)](const std::stop_token& closed) { poll(closed, stop); });
}

void RunEnd::poll(const std::stop_token& closed, const std::function<void()>& stop) {
  for (int polls = 0; !closed.stop_requested() && decided() != Way::finished; ++polls) {
    const bool asked =
        told_() || decided() == Way::stopped || (polls % kPollsOfStore == 0 && said_to_stop());
    if (asked && decide(Way::stopped) == Way::stopped) return stop();
    std::this_thread::sleep_for(kPoll);
  }
}

bool RunEnd::finish() {
  const auto way = decide(Way::finished);
  thread_.join();
  return way == Way::finished;
}

// The first rank's wish that reaches the store is the decision.
RunEnd::Way RunEnd::decide(Way wanted) {
  const std::lock_guard lock(mutex_);
  if (decided_ != Way::undecided) return decided_;
  if (!store_) return decided_ = wanted;
  try {
    const auto word = bytes_of(wanted == Way::stopped ? kStopped : kFinished);
    const auto first = text_of(store_->compareSet(kWay, {}, word));
    return decided_ = first == kStopped ? Way::stopped : Way::finished;
  } catch (const std::exception& error) {
    fail(ExitCode::unavailable,
         "a peer was lost at the end of the run ({}); the rank that failed first says why",
         first_line(error.what()));
  }
}

RunEnd::Way RunEnd::decided() {
  const std::lock_guard lock(mutex_);
  return decided_;
}

// False where the store is gone, with its rank: the next collective says so.
bool RunEnd::said_to_stop() const {
  try {
    return store_ && store_->check({kWay}) && text_of(store_->get(kWay)) == kStopped;
  } catch (const std::exception&) {
    return false;
  }
}

void RunEnd::leave(const Error& error) const {
  if (!store_) end_process(error, [] {});
  if (rank_ != 0) {
    say(key_of(rank_));
    wait_for({kLine});
    end_process(error.exit_code());
  }
  std::vector<std::string> others;
  for (int rank = 1; rank < world_size_; ++rank) others.push_back(key_of(rank));
  wait_for(others);
  end_process(error, [this] { say(kLine); });
}

void RunEnd::say(const std::string& key) const {
  try {
    store_->set(key, bytes_of("1"));
  } catch (const std::exception&) {  // rank 0 has left with the store
  }
}

void RunEnd::wait_for(const std::vector<std::string>& keys) const {
  try {
    for (int polls = 0; polls < kPollsOfOthers && !store_->check(keys); ++polls) {
      std::this_thread::sleep_for(kPoll);
    }
  } catch (const std::exception&) {  // rank 0 has left with the store
  }
}

}  // namespace tg
