#include "checkpoint/run_end.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "comm/convert.h"
#include "tests/checkpoint/wait.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

constexpr int kWorld = 3;

// The ranks of a run as threads of one process. `stop` only counts where a real rank would end its
// process.
class Ranks {
 public:
  explicit Ranks(const std::function<Store(int rank)>& store, int world = kWorld) {
    for (int rank = 0; rank < world; ++rank) {
      auto& own = *ranks_.emplace_back(std::make_unique<Rank>());
      own.end.emplace(world == 1 ? Store() : store(rank), rank, world,
                      [&own] { return own.stop_requested.load(); });
      own.end->watch([&own] { ++own.stops; });
    }
  }

  void signal(int rank) { ranks_[static_cast<std::size_t>(rank)]->stop_requested = true; }
  bool all_stopped() const {
    return std::ranges::all_of(ranks_, [](const auto& rank) { return rank->stops == 1; });
  }
  bool any_stopped() const {
    return std::ranges::any_of(ranks_, [](const auto& rank) { return rank->stops > 0; });
  }
  // Every rank calls `before`, finish() and `after`. Returns the results of finish() by rank.
  std::vector<char> finish(
      const std::function<void(int rank)>& before,
      const std::function<void(int rank)>& after = [](int) {}) {
    std::vector<char> finished(ranks_.size());
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        before(static_cast<int>(rank));
        finished[rank] = ranks_[rank]->end->finish();
        after(static_cast<int>(rank));
      });
    }
    threads.clear();
    return finished;
  }

 private:
  struct Rank {
    std::atomic<bool> stop_requested = false;
    std::atomic<int> stops = 0;
    std::optional<RunEnd> end;
  };
  std::vector<std::unique_ptr<Rank>> ranks_;
};

std::function<Store(int)> in_memory() {
  return [store = Store(c10::make_intrusive<c10d::HashStore>())](int) { return store; };
}

TEST(RunEnd, WithoutASignalAllFinish) {
  for (const int world : {1, kWorld}) {
    Ranks ranks(in_memory(), world);
    std::barrier barrier(world);
    const auto finished = ranks.finish([&](int) { barrier.arrive_and_wait(); });
    EXPECT_EQ(finished, std::vector<char>(static_cast<std::size_t>(world), true));
    EXPECT_FALSE(ranks.any_stopped());
  }
}

// Rank 0 still evaluates when the signal arrives, while the others wait for it at the end.
TEST(RunEnd, ASignalStopsThoseThatAreDoneToo) {
  for (int signalled = 0; signalled < kWorld; ++signalled) {
    Ranks ranks(in_memory());
    std::barrier barrier(kWorld);
    std::atomic<int> done = 0;
    const auto finished = ranks.finish([&](int rank) {
      if (rank == 0) {
        EXPECT_TRUE(test::eventually([&] { return done == kWorld - 1; }));
        ranks.signal(signalled);
        EXPECT_TRUE(test::eventually([&] { return ranks.all_stopped(); }));
      }
      ++done;
      barrier.arrive_and_wait();
    });
    EXPECT_EQ(finished, std::vector<char>(kWorld, false));
  }
}

// Whether the signal or the end comes first, either all ranks finish or all stop.
TEST(RunEnd, ASignalAtTheVeryEndHasTheSameOutcomeOnAllRanks) {
  const test::TempDir folder;
  for (int round = 0; round < 24; ++round) {
    const auto path = folder / std::to_string(round);
    Ranks ranks([&](int) { return Store(c10::make_intrusive<c10d::FileStore>(path, kWorld)); });
    std::barrier barrier(kWorld);
    const int signalled = round % kWorld, moment = round / kWorld % 4;
    const auto finished = ranks.finish([&](int rank) {
      const bool is_signalled = rank == signalled;
      if (is_signalled && moment == 0) ranks.signal(signalled);
      if (is_signalled && moment == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(round));
      barrier.arrive_and_wait();
      if (is_signalled && moment > 0) ranks.signal(signalled);
      // Either the poll of the signalled rank or the other ranks' ends may be first.
      if (is_signalled && moment == 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    EXPECT_EQ(finished, std::vector<char>(kWorld, finished[0])) << "round " << round;
    EXPECT_EQ(ranks.all_stopped(), !finished[0]) << "round " << round;
    EXPECT_EQ(ranks.any_stopped(), !finished[0]) << "round " << round;
  }
}

// Sets the outcome "stopped" only after go_on() is called.
class SlowStore final : public c10d::HashStore {
 public:
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override {
    if (text_of(desired) == "stopped") {
      setting_ = true;
      EXPECT_TRUE(test::eventually([this] { return go_on_.load(); }));
    }
    return HashStore::compareSet(key, expected, desired);
  }
  bool is_setting() const { return setting_; }
  void go_on() { go_on_ = true; }

 private:
  std::atomic<bool> setting_ = false, go_on_ = false;
};

TEST(RunEnd, ARankThatIsStoppedTooLateFinishesToo) {
  const auto store = c10::make_intrusive<SlowStore>();
  Ranks ranks([&](int) { return Store(store); });
  std::atomic<int> finished_before = 0;
  ranks.signal(1);
  ASSERT_TRUE(test::eventually([&] { return store->is_setting(); }));
  const std::jthread others_first([&] {
    EXPECT_TRUE(test::eventually([&] { return finished_before == kWorld - 1; }));
    store->go_on();
  });
  const auto finished = ranks.finish([](int) {}, [&](int) { ++finished_before; });
  EXPECT_EQ(finished, std::vector<char>(kWorld, true));
  EXPECT_FALSE(ranks.any_stopped());
}

}  // namespace
}  // namespace tg
