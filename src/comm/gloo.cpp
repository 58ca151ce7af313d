#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.h"
#include "comm/backend.h"

namespace tg {

namespace {

// The address of this host from which packets to `peer` leave. Nothing is sent.
std::string address_towards(const std::string& peer) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  REQUIRE(
      ::getaddrinfo(peer.c_str(), "9", &hints, &found) == 0, ExitCode::unavailable,
      "MASTER_ADDR={} is not known to this host; expected a name or address of the first rank's",
      peer);
  std::string address = "127.0.0.1";
  const int descriptor = ::socket(found->ai_family, SOCK_DGRAM, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  char text[NI_MAXHOST];
  if (descriptor >= 0 && ::connect(descriptor, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0) {
    address = text;
  }
  if (descriptor >= 0) ::close(descriptor);
  ::freeaddrinfo(found);
  return address;
}

// Gloo writes to a lost peer's socket as to any other, and takes the error for its answer: threads
// that are made meanwhile get it, and no signal that would end the process.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~NoSigpipe() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Backend make_gloo(const Rendezvous& meeting, const LaunchInfo& launch,
                  std::chrono::milliseconds timeout) {
  using c10d::ProcessGroupGloo;
  const NoSigpipe no_sigpipe;
  auto options = ProcessGroupGloo::Options::create(timeout);
  if (!launch.gloo_interface.empty()) {
    options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(launch.gloo_interface));
  } else {
    const auto address = launch.one_node ? "127.0.0.1" : address_towards(launch.master_addr);
    options->devices.push_back(ProcessGroupGloo::createDeviceForHostname(address));
  }
  return c10::make_intrusive<ProcessGroupGloo>(meeting.store, launch.rank, launch.world_size,
                                               options);
}

std::string gloo_record() {
  return c10d::dump_fr_trace(/*includeCollectives=*/true, /*includeStackTraces=*/false,
                             /*onlyActive=*/false);
}

}  // namespace tg
