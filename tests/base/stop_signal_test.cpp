#include "base/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace tg {
namespace {

// Runs in a separate process, since handlers stay installed.
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

// Passes bytes between processes.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  bool send(int what) const {
    const char byte = static_cast<char>(what);
    return ::write(ends_[1], &byte, 1) == 1;
  }
  // Returns -1 if no sender is left.
  int receive() const {
    ::close(ends_[1]);
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1 ? byte : -1;
  }

 private:
  std::array<int, 2> ends_{};
};

TEST(StopSignal, TheEndOfTheParentIsAHangUpAlsoWhereThoseAreIgnored) {
  const Pipe watches, found;
  if (::fork() == 0) {
    if (::fork() == 0) {
      ::alarm(60);  // fails instead of waiting forever
      ::signal(SIGHUP, SIG_IGN);
      catch_stop_signals();
      stop_with_parent();
      watches.send(0);
      while (stop_signal() == 0) ::usleep(1000);
      std::_Exit(found.send(stop_signal()) ? 0 : 1);
    }
    std::_Exit(watches.receive());  // the parent exits once it is watched
  }
  EXPECT_EQ(found.receive(), SIGHUP);
}

}  // namespace
}  // namespace tg
