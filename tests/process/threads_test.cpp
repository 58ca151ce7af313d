#include "process/threads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tg {
namespace {

// The first test of this program: a child inherits what the process has computed before.
// Exits with 0 where a new process's first cosines, by 16 threads, are those it computes again.
[[noreturn]] void compute_first_cosines() {
  LaunchInfo launch;
  launch.chose_threads = true;
  at::set_num_threads(16);
  set_threads(launch, /*gpu=*/false);
  const auto x = at::linspace(0, 98304, 1 << 18);
  const auto first = x.cos();
  ::_exit(first.equal(x.cos()) ? 0 : 1);
}

TEST(Threads, ComputeTheFirstCosinesOfAProcessAsAllOthers) {
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) compute_first_cosines();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Threads, RanksShareTheCoresEvenly) {
  EXPECT_EQ(threads_of_rank({.own = 16, .host = 16}, 1, false), 16);
  EXPECT_EQ(threads_of_rank({.own = 16, .host = 16}, 2, false), 8);
  EXPECT_EQ(threads_of_rank({.own = 16, .host = 16}, 3, false), 5);
  EXPECT_EQ(threads_of_rank({.own = 2, .host = 2}, 8, false), 1);
}

TEST(Threads, ARankStaysOnTheCoresThatItIsBoundTo) {
  EXPECT_EQ(threads_of_rank({.own = 1, .host = 16}, 2, false), 1);
  EXPECT_EQ(threads_of_rank({.own = 32, .host = 64}, 4, false), 16);
  EXPECT_EQ(threads_of_rank({.own = 8, .host = 64}, 8, false), 8);
}

TEST(Threads, AGpuNeedsNoMoreThanFour) {
  EXPECT_EQ(threads_of_rank({.own = 64, .host = 64}, 1, true), 4);
  EXPECT_EQ(threads_of_rank({.own = 16, .host = 16}, 8, true), 2);
}

TEST(Threads, AreLeftAloneWhereTheUserChose) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  LaunchInfo launch;
  launch.chose_threads = true;
  EXPECT_EQ(set_threads(launch, false), "3 (environment)");
  at::set_num_threads(before);
}

TEST(Threads, AreSetAndTold) {
  const int before = at::get_num_threads();
  LaunchInfo launch;
  launch.local_size = 1 << 20;
  const auto text = set_threads(launch, false);
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_EQ(text, "1 of " + std::to_string(find_cores(launch).host) +
                      " cores, 1048576 ranks on this machine");
  at::set_num_threads(before);
}

}  // namespace
}  // namespace tg
