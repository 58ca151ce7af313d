#include "comm/peer_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "tests/base/asleep.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

using namespace std::chrono_literals;

constexpr int kWorld = 3;
constexpr double kShort_s = 0.2, kLong_s = 100;

// A rank's watch, as Communicator creates it.
class Rank {
 public:
  Rank(const std::string& path, int rank, double timeout_s, std::int64_t step,
       FlightRecord::Dump dump = nullptr, const std::string& traces = "")
      : watch(c10::make_intrusive<c10d::FileStore>(path, kWorld), rank, kWorld, timeout_s,
              dump ? std::make_shared<FlightRecord>(traces, rank, dump) : nullptr) {
    watch.set_step(step);
  }
  PeerWatch watch;
};

[[noreturn]] void exit_with_success() {
  ::_exit(0);
}

// Sleeps for longer than any timeout here: a test that reaches its end fails, since the exit code
// is 0.
[[noreturn]] void wait_in_scope(Rank& rank) {
  const PeerWatch::Scope waiting(&rank.watch);
  std::this_thread::sleep_for(30s);
  exit_with_success();
}

// A watch ends its whole process, so each case runs in a child process. GTest runs suites of this
// name first, before there are other threads, which a fork would lose.
class PeerWatchDeathTest : public testing::Test {
 protected:
  const test::TempDir folder_;
  const std::string store_ = folder_ / "store";
};

TEST_F(PeerWatchDeathTest, ARankThatWaitsTooLongExitsAndNamesTheSilentOnes) {
  const auto wait = [&] {
    Rank own(store_, 0, kShort_s, 7), alive(store_, 2, kLong_s, 9);
    wait_in_scope(own);
  };
  EXPECT_EXIT(
      wait(), testing::ExitedWithCode(69),
      "ERROR exit=69 rank=0: no progress of the other ranks for [0-9] s "
      "\\(COMM_TIMEOUT_S\\); stopped or gone: rank 1; alive: 0 \\(step 7\\) 2 \\(step 9\\)");
}

TEST_F(PeerWatchDeathTest, IfAllRanksAnswerTheirStepsAreNamed) {
  const auto wait = [&] {
    Rank own(store_, 0, kShort_s, 7), second(store_, 1, kLong_s, 6), third(store_, 2, kLong_s, 7);
    wait_in_scope(own);
  };
  EXPECT_EXIT(
      wait(), testing::ExitedWithCode(69),
      "all live, one of them is too slow: 0 \\(step 7, waiting for [0-9] s\\) 1 \\(step 6, no "
      "progress for [0-9] s\\) 2 \\(step 7, no progress for [0-9] s\\)");
}

TEST_F(PeerWatchDeathTest, TheFlightRecordIsSavedAndNamed) {
  const auto traces = folder_ / "traces";
  const auto wait = [&] {
    Rank own(
        store_, 1, kShort_s, 7, [] { return "all of them"; }, traces);
    wait_in_scope(own);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69),
              "; its last collectives: " + traces + "/rank_1\n");
  EXPECT_EQ(test::read_file(traces + "/rank_1"), "all of them");
}

TEST_F(PeerWatchDeathTest, AFlightRecordDumpThatHangsIsNotWaitedFor) {
  const auto wait = [&] {
    const auto hang = [] {
      std::this_thread::sleep_for(60s);
      return "";
    };
    Rank own(store_, 1, kShort_s, 7, hang, folder_ / "traces");
    wait_in_scope(own);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69), "alive: 1 \\(step 7\\)\n");
}

TEST_F(PeerWatchDeathTest, ANewTimeoutAppliesAtOnce) {
  const auto wait = [&] {
    Rank own(store_, 1, kLong_s, 3);
    own.watch.set_timeout(kShort_s);
    wait_in_scope(own);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69), "stopped or gone: rank 0 2; alive: 1");
}

TEST_F(PeerWatchDeathTest, ATimeoutAppliesInItsScopeAlone) {
  const auto wait = [&] {
    Rank own(store_, 1, kShort_s, 3);
    const PeerWatch::Scope waiting(&own.watch);
    {
      const PeerWatch::Timeout patient(&own.watch, kLong_s);
      std::this_thread::sleep_for(1s);
      std::cerr << "still here\n";
    }
    std::this_thread::sleep_for(30s);
    exit_with_success();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69), "still here\nERROR exit=69");
}

TEST_F(PeerWatchDeathTest, ARankThatDoesNotWaitIsNotEnded) {
  const auto work = [&] {
    Rank own(store_, 0, kShort_s, 7);
    { const PeerWatch::Scope waiting(&own.watch); }
    std::this_thread::sleep_for(1500ms);
    exit_with_success();
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(0), "^$");
}

TEST_F(PeerWatchDeathTest, ShortWaitsDoNotAddUp) {
  const auto work = [&] {
    Rank own(store_, 0, 3, 7);
    for (int i = 0; i < 6; ++i) {
      const PeerWatch::Scope waiting(&own.watch);
      std::this_thread::sleep_for(600ms);
    }
    exit_with_success();
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(0), "^$");
}

// Reports progress for 3 s, twice the waiting rank's timeout.
template <class Progress>
void keep_progressing(const Progress& progress) {
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(300ms);
    progress();
  }
}

TEST_F(PeerWatchDeathTest, ARankThatMakesProgressIsWaitedFor) {
  const auto wait = [&] {
    Rank own(store_, 0, 1.5, 7), second(store_, 1, kLong_s, 7), third(store_, 2, kLong_s, 7);
    const PeerWatch::Scope waiting(&own.watch), as_well(&second.watch);
    keep_progressing([&] { third.watch.progress(); });
    exit_with_success();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(0), "^$");
}

TEST_F(PeerWatchDeathTest, ADevicesProgressCounts) {
  const auto count = at::zeros({1}, at::kLong);
  const auto wait = [&] {
    Rank own(store_, 0, 1.5, 7), second(store_, 1, kLong_s, 7), third(store_, 2, kLong_s, 7);
    third.watch.watch_device(count);
    // Each rank's host is blocked, in launches or on its device.
    const PeerWatch::Scope waiting(&own.watch), as_well(&second.watch), too(&third.watch);
    keep_progressing([&] { ++*count.mutable_data_ptr<std::int64_t>(); });
    exit_with_success();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(0), "^$");
}

TEST_F(PeerWatchDeathTest, AnnouncedWorkIsWaitedForWhileItMakesProgressAndThenNamed) {
  const auto wait = [&] {
    Rank own(store_, 0, 1.5, 7), second(store_, 1, kLong_s, 7), third(store_, 2, kLong_s, 8);
    const PeerWatch::Scope waiting(&own.watch), as_well(&second.watch);
    const PeerWatch::Work writing(&third.watch, "writing a file");
    keep_progressing([] { report_progress(100); });
    std::this_thread::sleep_for(30s);
    exit_with_success();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69),
              "2 \\(step 8, writing a file: 1000 bytes so far, no progress for [1-9] s\\)");
}

// Rank 1 answers the first check and is then stopped: its heartbeat in the store belongs to that
// check.
TEST_F(PeerWatchDeathTest, AnAnswerToAnEarlierHealthCheckDoesNotCountInALaterOne) {
  const auto wait = [&] {
    Rank own(store_, 0, 2, 7), third(store_, 2, kLong_s, 9);
    auto second = std::make_optional<Rank>(store_, 1, kLong_s, 8);
    const PeerWatch::Scope waiting(&own.watch), as_well(&third.watch);
    // The check runs at half the timeout.
    c10d::FileStore store(store_, kWorld);
    while (!store.check({"heartbeat/1"})) std::this_thread::sleep_for(10ms);
    second.reset();
    std::this_thread::sleep_for(30s);
    exit_with_success();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69),
              "stopped or gone: rank 1 \\([0-9] s ago: step 8\\); alive: 0 \\(step 7\\) 2 ");
}

// Every store call locks the file: a rank that is stopped during a call blocks the others' calls.
TEST_F(PeerWatchDeathTest, WhoHoldsTheStoresFileIsOneOfTheOthers) {
  const auto wait = [&] {
    Rank own(store_, 1, kShort_s, 7);
    const int held = ::open(store_.c_str(), O_RDWR | O_CLOEXEC);
    ::flock(held, LOCK_EX);
    wait_in_scope(own);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69),
              "; a rank is stopped that has locked the rendezvous store's file: one of 0 2\n");
}

TEST(PeerWatch, AScopeAndAWorkWithoutAWatchDoNothing) {
  const PeerWatch::Scope waiting(nullptr);
  const PeerWatch::Work writing(nullptr, "writing");
  report_progress(1);
}

TEST(PeerWatch, ItsDestructorDoesNotWaitForAPoll) {
  const test::TempDir folder;
  using Clock = std::chrono::steady_clock;
  auto quickest = Clock::duration::max();
  for (int i = 0; i < 10; ++i) {
    std::optional<Rank> rank(std::in_place, folder / "store", 0, kLong_s, 1);
    test::wait_until_other_threads_sleep();
    const auto began = Clock::now();
    rank.reset();
    quickest = std::min(quickest, Clock::now() - began);
  }
  // The threads have just begun to sleep until their next poll in 300 ms.
  EXPECT_LT(quickest, 150ms);
}

TEST(PeerWatch, ALostPeerIsReportedWithTheStepAndTheCause) {
  const test::TempDir folder;
  Rank rank(folder / "store", 0, kLong_s, 41);
  EXPECT_EQ(rank.watch.explain_loss("Connection closed by peer"),
            "a peer was lost at step 41 (Connection closed by peer); the rank that failed first "
            "says why");
}

}  // namespace
}  // namespace tg
