#include "base/stop_signal.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

namespace tg {

namespace {

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

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
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);
}

int stop_signal() {
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
