#include "base/stop_signal.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace tg {
namespace {

std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

std::atomic<bool> catching = false;

constexpr auto kPoll = std::chrono::milliseconds(200);

void handle(int signal) {
  int before = 0;
  if (requested.compare_exchange_strong(before, signal) || signal == SIGHUP) return;
  if (before != SIGHUP || !requested.compare_exchange_strong(before, signal)) {
    ::_exit(128 + signal);
  }
}

// Detects a parent that had exited before stop_with_parent() was called: the parent is process 1
// and nobody reads standard output. (In a container the launcher itself may be process 1, but it
// reads.)
bool is_orphan() {
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  ::poll(&output, 1, 0);
  return ::getppid() == 1 && (output.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

void catch_stop_signals() {
  catching = true;
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) ::sigaction(signal, &action, nullptr);
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

// PR_SET_PDEATHSIG is no alternative: it signals the exit of the parent's thread, and launchers
// with many ranks start them from short-lived threads.
void stop_with_parent() {
  std::thread([parent = ::getppid()] {
    while (::getppid() == parent && !is_orphan()) std::this_thread::sleep_for(kPoll);
    if (!catching) ::_exit(128 + SIGHUP);
    handle(SIGHUP);
  }).detach();
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
