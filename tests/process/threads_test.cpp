#include "process/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace tg {
namespace {

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
