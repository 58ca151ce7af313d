#include "train/run_end.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "comm/convert.h"
#include "tests/data/files.h"
#include "tests/train/wait.h"

namespace tg {
namespace {

constexpr int kWorld = 3;

// A run's ranks as threads of one process. Where a real one ends its process, `stop` only counts.
class Ranks {
 public:
  explicit Ranks(const std::function<Store(int rank)>& store, int world = kWorld) {
    for (int rank = 0; rank < world; ++rank) {
      auto& own = *ranks_.emplace_back(std::make_unique<Rank>());
      own.end.emplace(world == 1 ? Store() : store(rank), rank, world,
                      [&own] { return own.told.load(); });
      own.end->watch([&own] { ++own.stops; });
    }
  }

  void tell(int rank) { ranks_[static_cast<std::size_t>(rank)]->told = true; }
  bool all_stopped() const {
    return std::ranges::all_of(ranks_, [](const auto& rank) { return rank->stops == 1; });
  }
  bool any_stopped() const {
    return std::ranges::any_of(ranks_, [](const auto& rank) { return rank->stops > 0; });
  }
  // Every rank calls `arrive`, finish() and `leave` → results of finish() by rank.
  std::vector<char> finish(
      const std::function<void(int rank)>& arrive,
      const std::function<void(int rank)>& leave = [](int) {}) {
    std::vector<char> finished(ranks_.size());
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        arrive(static_cast<int>(rank));
        finished[rank] = ranks_[rank]->end->finish();
        leave(static_cast<int>(rank));
      });
    }
    threads.clear();
    return finished;
  }

 private:
  struct Rank {
    std::atomic<bool> told = false;
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

// Rank 0 still evaluates when the signal comes, and the others wait for it at the end.
TEST(RunEnd, ASignalStopsThoseThatAreDoneToo) {
  for (int told = 0; told < kWorld; ++told) {
    Ranks ranks(in_memory());
    std::barrier barrier(kWorld);
    std::atomic<int> done = 0;
    const auto finished = ranks.finish([&](int rank) {
      if (rank == 0) {
        EXPECT_TRUE(test::comes([&] { return done == kWorld - 1; }));
        ranks.tell(told);
        EXPECT_TRUE(test::comes([&] { return ranks.all_stopped(); }));
      }
      ++done;
      barrier.arrive_and_wait();
    });
    EXPECT_EQ(finished, std::vector<char>(kWorld, false));
  }
}

// Whichever of signal and end is first: no rank finishes while another stops.
TEST(RunEnd, ASignalAtTheVeryEndHasTheSameOutcomeOnAllRanks) {
  const test::TempDir folder;
  for (int round = 0; round < 24; ++round) {
    const auto path = folder / std::to_string(round);
    Ranks ranks([&](int) { return Store(c10::make_intrusive<c10d::FileStore>(path, kWorld)); });
    std::barrier barrier(kWorld);
    const int told = round % kWorld, moment = round / kWorld % 4;
    const auto finished = ranks.finish([&](int rank) {
      const bool tells = rank == told;
      if (tells && moment == 0) ranks.tell(told);
      if (tells && moment == 1) std::this_thread::sleep_for(std::chrono::milliseconds(round));
      barrier.arrive_and_wait();
      if (tells && moment > 0) ranks.tell(told);
      // The poll of the told rank may come first, or the others' ends.
      if (tells && moment == 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    EXPECT_EQ(finished, std::vector<char>(kWorld, finished[0])) << "round " << round;
    EXPECT_EQ(ranks.all_stopped(), !finished[0]) << "round " << round;
    EXPECT_EQ(ranks.any_stopped(), !finished[0]) << "round " << round;
  }
}

// Takes its time to say that the run is stopped.
class SlowStore final : public c10d::HashStore {
 public:
  std::vector<std::uint8_t> compareSet(const std::string& key,
                                       const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override {
    if (text_of(desired) == "stopped") {
      saying_ = true;
      EXPECT_TRUE(test::comes([this] { return go_on_.load(); }));
    }
    return HashStore::compareSet(key, expected, desired);
  }
  bool saying() const { return saying_; }
  void go_on() { go_on_ = true; }

 private:
  std::atomic<bool> saying_ = false, go_on_ = false;
};

TEST(RunEnd, ARankThatSaysThatItStopsTooLateFinishesToo) {
  const auto store = c10::make_intrusive<SlowStore>();
  Ranks ranks([&](int) { return Store(store); });
  std::atomic<int> finished_before = 0;
  ranks.tell(1);
  ASSERT_TRUE(test::comes([&] { return store->saying(); }));
  const std::jthread others_first([&] {
    EXPECT_TRUE(test::comes([&] { return finished_before == kWorld - 1; }));
    store->go_on();
  });
  const auto finished = ranks.finish([](int) {}, [&](int) { ++finished_before; });
  EXPECT_EQ(finished, std::vector<char>(kWorld, true));
  EXPECT_FALSE(ranks.any_stopped());
}

}  // namespace
}  // namespace tg
