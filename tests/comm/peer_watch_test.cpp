#include "comm/peer_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "tests/data/files.h"

namespace tg {
namespace {

using namespace std::chrono_literals;

constexpr int kWorld = 3;
constexpr double kShort_s = 0.2, kLong_s = 100;

// A rank's watch, as Communicator makes it.
class Rank {
 public:
  Rank(const std::string& path, int rank, double timeout_s, std::int64_t step,
       FlightRecord::Recorder recorder = nullptr, const std::string& traces = "")
      : watch(c10::make_intrusive<c10d::FileStore>(path, kWorld), rank, kWorld, timeout_s,
              recorder ? std::make_shared<FlightRecord>(traces, rank, recorder) : nullptr) {
    watch.set_step(step);
  }
  PeerWatch watch;
};

[[noreturn]] void end_well() {
  ::_exit(0);
}

// Longer than any watch here takes; a test that gets to its end has failed.
[[noreturn]] void wait_for_ever(Rank& rank) {
  const PeerWatch::Scope waiting(&rank.watch);
  std::this_thread::sleep_for(30s);
  end_well();
}

// A watch ends its whole process, so each case runs in one of its own. Gtest runs suites of this
// name first, when there are no other threads yet that a fork would lose.
class PeerWatchDeathTest : public testing::Test {
 protected:
  const test::TempDir folder_;
  const std::string store_ = folder_ / "store";
};

TEST_F(PeerWatchDeathTest, ARankThatWaitsTooLongEndsAndNamesTheSilentOnes) {
  const auto wait = [&] {
    Rank own(store_, 0, kShort_s, 7), alive(store_, 2, kLong_s, 9);
    wait_for_ever(own);
  };
  EXPECT_EXIT(
      wait(), testing::ExitedWithCode(69),
      "ERROR exit=69 rank=0: no progress of the other ranks for [0-9] s "
      "\\(COMM_TIMEOUT_S\\); stopped or gone: rank 1; alive: 0 \\(step 7\\) 2 \\(step 9\\)");
}

TEST_F(PeerWatchDeathTest, RanksThatAllLiveAreToldByTheirSteps) {
  const auto wait = [&] {
    Rank own(store_, 0, kShort_s, 7), second(store_, 1, kLong_s, 6), third(store_, 2, kLong_s, 7);
    wait_for_ever(own);
  };
  EXPECT_EXIT(
      wait(), testing::ExitedWithCode(69),
      "all live, one of them is too slow: 0 \\(step 7, waiting for [0-9] s\\) 1 \\(step 6, no "
      "progress for [0-9] s\\) 2 \\(step 7, no progress for [0-9] s\\)");
}

TEST_F(PeerWatchDeathTest, ItsLastCollectivesAreSavedAndNamed) {
  const auto traces = folder_ / "traces";
  const auto wait = [&] {
    Rank own(
        store_, 1, kShort_s, 7, [] { return "all of them"; }, traces);
    wait_for_ever(own);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69),
              "; its last collectives: " + traces + "/rank_1\n");
  EXPECT_EQ(test::read_file(traces + "/rank_1"), "all of them");
}

TEST_F(PeerWatchDeathTest, ARecorderThatHangsTooIsLeftBehind) {
  const auto wait = [&] {
    const auto hang = [] {
      std::this_thread::sleep_for(60s);
      return "";
    };
    Rank own(store_, 1, kShort_s, 7, hang, folder_ / "traces");
    wait_for_ever(own);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69), "alive: 1 \\(step 7\\)\n");
}

TEST_F(PeerWatchDeathTest, ALaterTimeoutHoldsAtOnce) {
  const auto wait = [&] {
    Rank own(store_, 1, kLong_s, 3);
    own.watch.set_timeout(kShort_s);
    wait_for_ever(own);
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69), "stopped or gone: rank 0 2; alive: 1");
}

TEST_F(PeerWatchDeathTest, ARankThatDoesNotWaitGoesOn) {
  const auto work = [&] {
    Rank own(store_, 0, kShort_s, 7);
    { const PeerWatch::Scope waiting(&own.watch); }
    std::this_thread::sleep_for(1500ms);
    end_well();
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(0), "^$");
}

TEST_F(PeerWatchDeathTest, ShortWaitsDoNotAddUp) {
  const auto work = [&] {
    Rank own(store_, 0, 1.5, 7);
    for (int i = 0; i < 5; ++i) {
      const PeerWatch::Scope waiting(&own.watch);
      std::this_thread::sleep_for(600ms);
    }
    end_well();
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(0), "^$");
}

// Its own thread makes progress, a little longer than the other has patience for.
template <class Progress>
void get_on(const Progress& progress) {
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(300ms);
    progress();
  }
}

TEST_F(PeerWatchDeathTest, ARankThatGetsOnIsWaitedFor) {
  const auto wait = [&] {
    Rank own(store_, 0, 1.5, 7), second(store_, 1, kLong_s, 7), third(store_, 2, kLong_s, 7);
    const PeerWatch::Scope waiting(&own.watch), as_well(&second.watch);
    get_on([&] { third.watch.progress(); });
    end_well();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(0), "^$");
}

TEST_F(PeerWatchDeathTest, ADeviceThatGetsOnIsProgress) {
  const auto count = at::zeros({1}, at::kLong);
  const auto wait = [&] {
    Rank own(store_, 0, 1.5, 7), second(store_, 1, kLong_s, 7), third(store_, 2, kLong_s, 7);
    third.watch.watch_device(count);
    // The host of each is blocked, in launches or until its device is done.
    const PeerWatch::Scope waiting(&own.watch), as_well(&second.watch), too(&third.watch);
    get_on([&] { ++*count.mutable_data_ptr<std::int64_t>(); });
    end_well();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(0), "^$");
}

TEST_F(PeerWatchDeathTest, AnnouncedWorkIsWaitedForWhileItGetsOnAndThenNamed) {
  const auto wait = [&] {
    Rank own(store_, 0, 1.5, 7), second(store_, 1, kLong_s, 7), third(store_, 2, kLong_s, 8);
    const PeerWatch::Scope waiting(&own.watch), as_well(&second.watch);
    const PeerWatch::Work writing(&third.watch, "writing a file");
    get_on([] { report_progress(100); });
    std::this_thread::sleep_for(30s);
    end_well();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69),
              "2 \\(step 8, writing a file: 1000 bytes so far, no progress for [1-9] s\\)");
}

// Rank 1 lives, asks and answers, and is then stopped: its heartbeats are of earlier checks.
TEST_F(PeerWatchDeathTest, AnAnswerToAnEarlierHealthCheckDoesNotCountInALaterOne) {
  const auto wait = [&] {
    Rank own(store_, 0, 2, 7), third(store_, 2, kLong_s, 9);
    auto second = std::make_optional<Rank>(store_, 1, kLong_s, 8);
    const PeerWatch::Scope waiting(&own.watch), as_well(&third.watch);
    std::this_thread::sleep_for(1600ms);  // the check halfway is done
    second.reset();
    std::this_thread::sleep_for(30s);
    end_well();
  };
  EXPECT_EXIT(wait(), testing::ExitedWithCode(69),
              "stopped or gone: rank 1 \\([0-9] s ago: step 8\\); alive: 0 \\(step 7\\) 2 ");
}

TEST(PeerWatch, OneRankAloneHasNoneAndWaitsAllTheSame) {
  const PeerWatch::Scope waiting(nullptr);
  const PeerWatch::Work writing(nullptr, "writing");
  report_progress(1);
}

TEST(PeerWatch, EndsAtOnceWithItsRank) {
  const test::TempDir folder;
  const auto began = std::chrono::steady_clock::now();
  { Rank(folder / "store", 0, kLong_s, 1); }
  // Not only when it next looks, half a second later.
  EXPECT_LT(std::chrono::steady_clock::now() - began, 400ms);
}

TEST(PeerWatch, ALostPeerIsToldWithTheStepAndTheCause) {
  const test::TempDir folder;
  Rank rank(folder / "store", 0, kLong_s, 41);
  EXPECT_EQ(rank.watch.explain_loss("Connection closed by peer"),
            "a peer was lost at step 41 (Connection closed by peer); the rank that failed first "
            "says why");
}

}  // namespace
}  // namespace tg
