#include "base/process_exit.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace tg {
namespace {

using namespace std::chrono_literals;

TEST(ProcessExit, TheFirstErrorIsToldToWhoListens) {
  std::vector<ProcessExit> told;
  listen_to_exit([&](const ProcessExit& ending) { told.push_back(ending); });
  set_log_step(12);
  error_line(static_cast<int>(ExitCode::bad_data), "a.bin is cut");
  error_line(static_cast<int>(ExitCode::unavailable), "what comes of it");
  set_log_step(-1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].exit_code, 65);
  EXPECT_EQ(told[0].step, 12);
  EXPECT_EQ(told[0].what, "a.bin is cut");

  listen_to_exit([&](const ProcessExit& ending) { told.push_back(ending); });
  error_line(static_cast<int>(ExitCode::usage), "before the first step");
  ASSERT_EQ(told.size(), 2u);
  EXPECT_FALSE(told[1].step);
}

TEST(ProcessExit, WhoNoLongerListensIsToldNothing) {
  listen_to_exit([](const ProcessExit&) { ADD_FAILURE() << "it is gone"; });
  listen_to_exit(nullptr);
  error_line(static_cast<int>(ExitCode::usage), "bad");
}

TEST(ProcessExit, AListenerWhoseStorageHangsDoesNotHoldTheEndUp) {
  std::promise<void> storage_answers, left;
  listen_to_exit([&](const ProcessExit&) {
    storage_answers.get_future().wait();
    left.set_value();
  });
  notify_exit({.exit_code = 74}, 0s);
  storage_answers.set_value();
  left.get_future().wait();
  listen_to_exit(nullptr);  // waits until the listener has returned
}

TEST(TimeLimit, WorkThatEndsInTimeIsDone) {
  bool done = false;
  run_at_most(1h, [&] { done = true; });
  EXPECT_TRUE(done);
  run_at_most(1h, [] { throw std::runtime_error("is lost"); });
}

}  // namespace
}  // namespace tg
