#include "comm/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "comm/convert.h"

namespace tg {

namespace {

// A folder of our own: another user's files in it would be read as our ranks' words.
std::string private_folder() {
  std::error_code none;
  const auto parent = std::filesystem::temp_directory_path(none);
  REQUIRE(
      !none, ExitCode::cannot_create,
      "no folder for temporary files ({}), in which the ranks could meet; set TMPDIR to one, or "
      "set MASTER_ADDR",
      none.message());
  const auto folder = fmt::format("{}/train_gpt-{}", parent.string(), ::geteuid());
  const bool failed = ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST;
  REQUIRE(!failed, ExitCode::cannot_create, "cannot create {} ({}); set TMPDIR, or set MASTER_ADDR",
          folder, std::strerror(errno));
  struct stat status {};
  REQUIRE(::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
              status.st_uid == ::geteuid() && (status.st_mode & 0077) == 0,
          ExitCode::cannot_create,
          "{} must be a folder that only you can enter, for the ranks to meet in (expected mode "
          "0700, found {:o} of user {}); remove it, set TMPDIR, or set MASTER_ADDR",
          folder, status.st_mode & 07777, status.st_uid);
  return folder;
}

Rendezvous meet_in_file(const LaunchInfo& launch, double timeout_s) {
  std::string name = launch.job;
  for (char& letter : name) {
    if (letter == '/') letter = '_';
  }
  const auto path = fmt::format("{}/{}", private_folder(), name);
  auto store = c10::make_intrusive<c10d::FileStore>(path, launch.world_size);
  store->setTimeout(milliseconds(timeout_s));
  return {std::move(store), "file " + path, path};
}

Rendezvous meet_at_address(const LaunchInfo& launch, double timeout_s) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.master_port);
  options.isServer = launch.rank == 0 && !launch.agent_store;
  options.waitWorkers = false;
  options.timeout = milliseconds(timeout_s);
  const auto place = fmt::format("{}:{}", launch.master_addr, launch.master_port);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(launch.master_addr, options);
    const auto prefix = "train_gpt/attempt_" + launch.attempt;
    return {c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store)), "tcp " + place};
  } catch (const std::exception& error) {
    fail(ExitCode::unavailable,
         "the ranks cannot meet at MASTER_ADDR:MASTER_PORT {} ({}); expected {}; choose another "
         "MASTER_PORT, or check the address",
         place, first_line(error.what()),
         options.isServer ? "a free port of this host" : "rank 0 listening there");
  }
}

// The first line that two texts do not share.
std::pair<std::string, std::string> first_difference(const std::string& one,
                                                     const std::string& two) {
  std::istringstream first(one), second(two);
  while (true) {
    std::string a, b;
    const bool has_a = !std::getline(first, a).fail(), has_b = !std::getline(second, b).fail();
    if (!has_a) a = "nothing";
    if (!has_b) b = "nothing";
    if (a != b || !has_a) return {a, b};
  }
}

std::string get(const Rendezvous& meeting, const std::string& key, int from_rank) {
  try {
    return text_of(meeting.store->get(key));
  } catch (const std::exception&) {
    fail(ExitCode::unavailable,
         "rank {} did not come to {} within the time; see whether it started, and its own message",
         from_rank, meeting.place);
  }
}

}  // namespace

Rendezvous meet(const LaunchInfo& launch, double timeout_s) {
  if (launch.world_size == 1) return {{}, "none needed"};
  if (!launch.master_addr.empty()) return meet_at_address(launch, timeout_s);
  REQUIRE(launch.one_node && !launch.job.empty(), ExitCode::usage,
          "{} ranks (by {}{}) need a place to meet; set MASTER_ADDR to the first rank's host, for "
          "all ranks",
          launch.world_size, launch.launcher, launch.one_node ? "" : ", on several nodes");
  return meet_in_file(launch, timeout_s);
}

std::string share_from_rank_0(const Rendezvous& meeting, const LaunchInfo& launch,
                              const std::string& key, const std::string& value) {
  if (!meeting.store) return value;
  if (launch.rank == 0) meeting.store->set(key, bytes_of(value));
  return get(meeting, key, 0);
}

void require_same(const Rendezvous& meeting, const LaunchInfo& launch, const std::string& lines) {
  if (!meeting.store) return;
  meeting.store->set(fmt::format("settings/{}", launch.rank), bytes_of(lines));
  const auto first = get(meeting, "settings/0", 0);
  // Every rank looks at all the others, so that all stop with the same words.
  for (int other = 1; other < launch.world_size; ++other) {
    const auto theirs = get(meeting, fmt::format("settings/{}", other), other);
    if (theirs == first) continue;
    const auto [one, two] = first_difference(first, theirs);
    // Rank 0 may keep the store: it stays until all have read it.
    meeting.store->add("compared", 1);
    for (int tries = 0; launch.rank == 0 && tries < 50; ++tries) {
      if (meeting.store->add("compared", 0) >= launch.world_size) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    fail(ExitCode::config,
         "the ranks do not agree (rank 0 has {}, rank {} has {}); start all of them with the same "
         "program, settings and environment",
         one, other, two);
  }
}

void part(const Rendezvous& meeting) {
  if (!meeting.file.empty()) ::unlink(meeting.file.c_str());
}

}  // namespace tg
