// What a Communicator does beside collectives of tensors: counters, texts, barriers, lost ranks.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/base/asleep.h"
#include "tests/comm/ranks.h"

namespace tg {
namespace {

using test::as_ranks;

using namespace std::chrono_literals;

// Ranks claim at different paces from two counters.
TEST(Communicator, EveryNumberOfACounterIsClaimedByOneRank) {
  constexpr int kNumbers = 20;
  for (const int world : {1, 3}) {
    std::array<std::array<std::atomic<int>, kNumbers>, 2> times{};
    const auto work = [&](Communicator& communicator) {
      for (auto& of_counter : times) {
        const int counter = communicator.make_counter();
        if (communicator.rank() == 2)
          continue;  // claims nothing from the first counter, nor the second
        for (auto number = communicator.claim(counter); number < kNumbers;
             number = communicator.claim(counter))
          ++of_counter.at(static_cast<std::size_t>(number));
      }
    };
    if (world == 1) {
      Communicator alone;
      work(alone);
    } else {
      as_ranks(world, work);
    }
    for (const auto& of_counter : times) {
      for (const auto& claims : of_counter) EXPECT_EQ(claims, 1);
    }
  }
}

TEST(Communicator, ATextIsRank0sOnEveryRank) {
  for (const int world : {1, 3}) {
    as_ranks(world, [&](Communicator& communicator) {
      for (const std::string& text :
           {std::string("a folder"), std::string(), std::string("\0\n", 2)}) {
        EXPECT_EQ(communicator.broadcast(communicator.rank() == 0 ? text : "of another"), text);
      }
    });
  }
}

TEST(Communicator, EveryRankKnowsTheFirstThatAnythingIsTrueOf) {
  for (const int world : {1, 3}) {
    as_ranks(world, [&](Communicator& communicator) {
      EXPECT_EQ(communicator.first_rank_with(false), std::nullopt);
      for (int first = 0; first < world; ++first) {
        EXPECT_EQ(communicator.first_rank_with(communicator.rank() >= first), first);
      }
    });
  }
}

TEST(Communicator, NoRankPassesABarrierBeforeAllReachIt) {
  for (const int world : {2, 3, 5}) {
    std::atomic<int> reached = 0;
    as_ranks(world, [&](Communicator& communicator) {
      for (int round = 1; round <= 20; ++round) {
        if (round % world == communicator.rank()) std::this_thread::sleep_for(2ms);
        ++reached;
        communicator.barrier();
        EXPECT_GE(reached, round * world);
      }
    });
  }
}

TEST(Communicator, ARankThatExitsEndsTheWaitOfTheOthers) {
  for (const int world : {2, 3, 5}) {
    as_ranks(world, [&](Communicator& communicator) {
      communicator.barrier();
      if (communicator.rank() == world - 1) return;
      communicator.watch()->set_step(12);
      // One sum may still succeed if the lost rank had sent its part before it exited.
      const auto message = test::error_of(ExitCode::unavailable, [&] {
        for (int i = 0; i < 3; ++i) communicator.sum(at::ones({1000}, at::kFloat)).wait();
      });
      test::expect_start(message, "a peer was lost at step 12 (");
    });
  }
}

// Threads of this process with that name (`found`: their number) that do not block SIGPIPE.
std::vector<std::string> threads_without_sigpipe_blocked(const std::string& name, int& found) {
  std::vector<std::string> open;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    const std::string text(std::istreambuf_iterator<char>(status), {});
    if (!text.starts_with("Name:\t" + name)) continue;
    ++found;
    const auto blocked = std::stoull(text.substr(text.find("SigBlk:") + 7), nullptr, 16);
    if ((blocked >> (SIGPIPE - 1) & 1) == 0) open.push_back(thread.path());
  }
  return open;
}

TEST(Communicator, GloosThreadsBlockSigpipe) {
  as_ranks(2, [&](Communicator& communicator) {
    communicator.barrier();
    int found = 0;
    EXPECT_EQ(threads_without_sigpipe_blocked("pt_gloo_runloop", found),
              std::vector<std::string>());
    EXPECT_GT(found, 0);
    communicator.barrier();
  });
}

// A store whose set() runs out of memory.
template <class Exhausted>
class FullStore : public c10d::HashStore {
 public:
  void set(const std::string&, const std::vector<uint8_t>&) override { throw Exhausted(); }
};

struct GpuIsFull : c10::OutOfMemoryError {
  GpuIsFull() : OutOfMemoryError("CUDA out of memory") {}
};

TEST(Communicator, OutOfMemoryIsNotReportedAsALostPeer) {
  LaunchInfo launch;
  launch.world_size = 2;
  const auto join = [&](const Store& store) {
    Communicator({store, ""}, launch, at::kCPU, 60, SumOrder::library);
  };
  EXPECT_THROW(join(c10::make_intrusive<FullStore<GpuIsFull>>()), c10::OutOfMemoryError);
  EXPECT_THROW(join(c10::make_intrusive<FullStore<std::bad_alloc>>()), std::bad_alloc);
}

TEST(Communicator, TimesItsWaitsForALateRank) {
  std::promise<::pid_t> first;  // rank 0's thread, when it only waits
  std::optional<Event> joined;  // by rank 1
  std::array<std::vector<Communicator::CollectiveWait>, 2> waits;
  as_ranks(2, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    communicator.barrier();
    EXPECT_TRUE(communicator.take_collective_waits().empty());  // timing is off
    communicator.time_collective_waits(true);
    if (rank == 1) {
      test::wait_until_asleep(first.get_future().get());
      joined.emplace(compute_stream(at::kCPU));
    }
    auto pending = communicator.sum(at::ones({10}, at::kFloat));
    if (rank == 0) first.set_value(::gettid());
    pending.wait();
    waits[rank] = communicator.take_collective_waits();
    EXPECT_TRUE(communicator.take_collective_waits().empty());
    communicator.time_collective_waits(false);
    communicator.barrier();
    EXPECT_TRUE(communicator.take_collective_waits().empty());
  });
  ASSERT_TRUE(joined);
  for (const auto& of_rank : waits) ASSERT_EQ(of_rank.size(), 1u);
  EXPECT_GE(waits[0][0].first.ms_until(*joined), 0);
  EXPECT_GE(joined->ms_until(waits[0][0].second), 0);
  EXPECT_GE(joined->ms_until(waits[1][0].first), 0);
  EXPECT_GE(waits[1][0].first.ms_until(waits[1][0].second), 0);
}

TEST(Communicator, MakesAThingOnceForTheRanksOfAHost) {
  for (const int world : {1, 3}) {
    std::atomic<int> made = 0;
    as_ranks(world, [&](Communicator& communicator) {
      const auto make = [&] { return fmt::format("number {}", ++made); };
      EXPECT_EQ(communicator.once_per_host(make), "number 1");
      communicator.barrier();
      EXPECT_EQ(communicator.once_per_host(make), "number 2");
    });
    EXPECT_EQ(made, 2);
  }
}

TEST(Communicator, LetsNobodyWaitForWhatCouldNotBeMade) {
  std::atomic<int> failed = 0, empty = 0;
  as_ranks(3, [&](Communicator& communicator) {
    try {
      const auto made = communicator.once_per_host(
          []() -> std::string { fail(ExitCode::cannot_create, "no room"); });
      empty += made.empty();
    } catch (const Error& error) {
      failed += error.exit_code() == ExitCode::cannot_create;
    }
    communicator.barrier();
  });
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(empty, 2);
}

}  // namespace
}  // namespace tg
