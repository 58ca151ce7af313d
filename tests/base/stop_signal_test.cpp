#include "base/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

namespace tg {
namespace {

// In a process of its own, since handlers stay.
template <class Action>
void in_child(int exit_code, Action action) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        catch_stop_signals();
        action();
        std::_Exit(stop_signal());
      },
      testing::ExitedWithCode(exit_code), "");
}

TEST(StopSignal, TheFirstIsARequest) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    in_child(signal, [=] { ::raise(signal); });
  }
}

TEST(StopSignal, TheSecondEndsTheProcessAtOnce) {
  in_child(128 + SIGINT, [] { ::raise(SIGTERM), ::raise(SIGINT); });
  in_child(128 + SIGUSR1, [] { ::raise(SIGUSR1), ::raise(SIGUSR1); });
}

TEST(StopSignal, HangUpsCountOnceAndNeverAsTheSecond) {
  in_child(SIGHUP, [] { ::raise(SIGHUP), ::raise(SIGHUP); });
  in_child(SIGTERM, [] { ::raise(SIGTERM), ::raise(SIGHUP); });
  in_child(SIGTERM, [] { ::raise(SIGHUP), ::raise(SIGTERM); });
  in_child(128 + SIGINT, [] { ::raise(SIGHUP), ::raise(SIGTERM), ::raise(SIGINT); });
}

TEST(StopSignal, AHangUpThatIsIgnoredStaysIgnored) {
  EXPECT_EXIT(
      {
        ::signal(SIGHUP, SIG_IGN);
        catch_stop_signals();
        ::raise(SIGHUP);
        std::_Exit(stop_signal());
      },
      testing::ExitedWithCode(0), "");
}

TEST(StopSignal, TheEndOfTheParentIsAHangUpAlsoWhereThoseAreIgnored) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  if (::fork() == 0) {
    if (::fork() == 0) {
      ::signal(SIGHUP, SIG_IGN);
      catch_stop_signals();
      stop_with_parent();
      while (stop_signal() == 0) ::usleep(1000);
      const char found = static_cast<char>(stop_signal());
      std::_Exit(::write(ends[1], &found, 1) == 1 ? 0 : 1);
    }
    ::usleep(100'000);
    std::_Exit(0);
  }
  ::close(ends[1]);
  char found = 0;
  ASSERT_EQ(::read(ends[0], &found, 1), 1);
  EXPECT_EQ(found, SIGHUP);
}

}  // namespace
}  // namespace tg
