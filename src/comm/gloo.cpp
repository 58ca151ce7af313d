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

// Returns this host's address on the route to `peer`. A UDP connect() finds it without sending a
// packet.
std::string local_address_towards(const std::string& peer) {
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

// Blocks SIGPIPE in this thread, and in threads created meanwhile, until destroyed. Gloo's threads
// write to sockets of peers that may be gone, and handle EPIPE; the signal would kill the process.
class BlockSigpipe {
 public:
  BlockSigpipe() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~BlockSigpipe() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSigpipe(const BlockSigpipe&) = delete;
  BlockSigpipe& operator=(const BlockSigpipe&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Backend make_gloo(const Rendezvous& rendezvous, const LaunchInfo& launch,
                  std::chrono::milliseconds timeout) {
  using c10d::ProcessGroupGloo;
  const BlockSigpipe block_sigpipe;
  auto options = ProcessGroupGloo::Options::create(timeout);
  if (!launch.gloo_interface.empty()) {
    options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(launch.gloo_interface));
  } else {
    const auto address = launch.one_node ? "127.0.0.1" : local_address_towards(launch.master_addr);
    options->devices.push_back(ProcessGroupGloo::createDeviceForHostname(address));
  }
  return c10::make_intrusive<ProcessGroupGloo>(rendezvous.store, launch.rank, launch.world_size,
                                               options);
}

std::string dump_gloo_flight_record() {
  return c10d::dump_fr_trace(/*includeCollectives=*/true, /*includeStackTraces=*/false,
                             /*onlyActive=*/false);
}

}  // namespace tg
