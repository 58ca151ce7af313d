#include "base/stop_signal.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

namespace tg {

namespace {

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

pid_t parent = 0;  // whose end is a SIGHUP; 0: nobody's

void handle(int signal) {
  int before = 0;
  if (requested.compare_exchange_strong(before, signal) || signal == SIGHUP) return;
  if (before != SIGHUP || !requested.compare_exchange_strong(before, signal)) {
    ::_exit(128 + signal);
  }
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) ::sigaction(signal, &action, nullptr);
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

void stop_with_parent() {
  parent = ::getppid();
  // It may have ended before: then the process is an orphan and nobody reads what it writes. In a
  // container the launcher itself may be process 1, and reads.
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  ::poll(&output, 1, 0);
  const bool unread = (output.revents & (POLLHUP | POLLERR)) != 0;
  if (parent == 1 && unread) ::raise(SIGHUP);
}

int stop_signal() {
  // Not by PR_SET_PDEATHSIG: that signals the end of the thread that started this process, and
  // launchers with many ranks start them in threads of a moment.
  if (parent != 0 && ::getppid() != parent) handle(SIGHUP);
  return requested;
}

const char* signal_name(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "a signal";
  }
}

}  // namespace tg
