#include "comm/rendezvous_store.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "comm/convert.h"
#include "files/file_lock.h"
#include "files/folder.h"

namespace tg {

namespace {

// Returns a directory that only this user may access: ranks trust the content of the store's file.
std::string private_directory() {
  const auto parent =
      temporary_folder(", for the rendezvous of the ranks; set TMPDIR to one, or set MASTER_ADDR");
  const auto folder = fmt::format("{}/train_gpt-{}", parent, ::geteuid());
  const bool failed = ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST;
  REQUIRE(!failed, ExitCode::cannot_create, "cannot create {} ({}); set TMPDIR, or set MASTER_ADDR",
          folder, std::strerror(errno));
  struct stat status {};
  REQUIRE(::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
              status.st_uid == ::geteuid() && (status.st_mode & 0077) == 0,
          ExitCode::cannot_create,
          "{} must be a folder that only you can enter, for the rendezvous (expected mode "
          "0700, found {:o} of user {}); remove it, set TMPDIR, or set MASTER_ADDR",
          folder, status.st_mode & 07777, status.st_uid);
  return folder;
}

// Returns the IPv4 address of `host` if it is a loopback address.
std::optional<in_addr> loopback_address(const std::string& host) {
  const auto text = host == "localhost" ? "127.0.0.1" : host;
  in_addr address{};
  const bool is_address = ::inet_pton(AF_INET, text.c_str(), &address) == 1;
  if (!is_address || (ntohl(address.s_addr) >> 24) != IN_LOOPBACKNET) return std::nullopt;
  return address;
}

// Returns a socket that listens on `address` alone; TCPStore's own socket listens on every
// interface.
int listen_at(in_addr address, int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr = address;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      ::listen(descriptor, SOMAXCONN) != 0) {
    const auto why = std::strerror(errno);
    ::close(descriptor);
    throw std::runtime_error(why);
  }
  return descriptor;
}

// Returns the line that this rank logs while it cannot connect; empty: none. Without a store ranks
// cannot agree on who logs: local rank 0 of each host does, or every rank if the ranks were started
// one by one.
std::string connect_notice(const LaunchInfo& launch, bool is_server, const std::string& endpoint) {
  const bool one_by_one = launch.launcher == "env" && !launch.agent_store;
  if (launch.local_rank != 0 && !one_by_one) return "";
  const auto place = fmt::format("MASTER_ADDR:MASTER_PORT {}", endpoint);
  if (is_server) {
    return fmt::format(
        "waiting for {} to answer, where this rank listens; expected an address of "
        "this host in MASTER_ADDR",
        place);
  }
  return fmt::format("waiting for {} of {} ({}) at {}; {}",
                     launch.agent_store ? "torchrun's store" : "rank 0", launch.world_size,
                     launch.size_variable, place, launch.start_hint);
}

// On NFS, FileStore's flock() would conflict with the lock below and block forever.
bool is_on_nfs(int descriptor) {
  struct statfs system {};
  return ::fstatfs(descriptor, &system) == 0 && system.f_type == NFS_SUPER_MAGIC;
}

// Opens or creates the FileStore's file and locks it (shared) until the process exits, so the lock
// outlives a failed process group. An unlocked file is left by a job whose ranks were killed before
// all had joined; it is truncated first. On NFS no lock is taken and no file is truncated. Throws
// Error(cannot_create).
StoreFile open_store_file(const std::string& path) {
  while (true) {
    const StoreFile file{path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    REQUIRE(file.descriptor >= 0, ExitCode::cannot_create,
            "cannot create {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    if (is_on_nfs(file.descriptor)) return file;
    const bool unlocked = try_lock(file.descriptor, FileLock::exclusive);
    const bool truncated = !unlocked || ::ftruncate(file.descriptor, 0) == 0;
    REQUIRE(truncated && wait_for_lock(file.descriptor, FileLock::shared), ExitCode::cannot_create,
            "cannot lock {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    const bool in_use = unlocked || others_have_locked(file.descriptor);
    if (in_use && has_name(file.descriptor, file.path)) return file;
    // Another job's last rank exited, or unlinked the file, between open() and the lock: try again.
    ::close(file.descriptor);
  }
}

}  // namespace

Rendezvous file_rendezvous(const LaunchInfo& launch, double timeout_s) {
  std::string name = launch.job;
  for (char& letter : name) {
    if (letter == '/') letter = '_';
  }
  const auto file = open_store_file(fmt::format("{}/{}", private_directory(), name));
  // FileStore reopens its file for every operation; this name stays valid after the unlink.
  auto store = c10::make_intrusive<c10d::FileStore>(
      fmt::format("/proc/self/fd/{}", file.descriptor), launch.world_size);
  store->setTimeout(milliseconds(timeout_s));
  if (store->add("joined", 1) == launch.world_size) unlink_store_file(file);
  return {std::move(store), "file " + file.path, file};
}

Rendezvous tcp_rendezvous(const LaunchInfo& launch, double timeout_s, NoticeTimes notices) {
  c10::initLogging();  // reads TORCH_CPP_LOG_LEVEL; Python programs do so at import
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.master_port);
  options.isServer = launch.rank == 0 && !launch.agent_store;
  options.waitWorkers = false;
  options.timeout = milliseconds(timeout_s);
  const auto endpoint = fmt::format("{}:{}", launch.master_addr, launch.master_port);
  const WaitNotice notice(notices,
                          [&] { return connect_notice(launch, options.isServer, endpoint); });
  try {
    if (const auto address = loopback_address(launch.master_addr); address && options.isServer) {
      options.masterListenFd = listen_at(*address, launch.master_port);
    }
    auto store = c10::make_intrusive<c10d::TCPStore>(launch.master_addr, options);
    const auto prefix = "train_gpt/attempt_" + launch.attempt;
    return {c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store)), "tcp " + endpoint};
  } catch (const std::exception& error) {
    fail(ExitCode::unavailable,
         "no rendezvous at MASTER_ADDR:MASTER_PORT {} ({}); expected {}; choose another "
         "MASTER_PORT, or check the address",
         endpoint, first_line(error.what()),
         options.isServer ? "a free port of this host" : "rank 0 listening there");
  }
}

void unlink_store_file(const StoreFile& file) {
  if (has_name(file.descriptor, file.path)) ::unlink(file.path.c_str());
}

}  // namespace tg
