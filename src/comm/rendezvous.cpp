#include "comm/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"

namespace tg {

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

std::string first_line(const char* text) {
  const std::string_view all(text);
  return std::string(all.substr(0, all.find('\n')));
}

// A folder of our own: another user's files in it would be read as our ranks' words.
std::string private_folder() {
  const auto folder =
      fmt::format("{}/train_gpt-{}", std::filesystem::temp_directory_path().string(), ::geteuid());
  ::mkdir(folder.c_str(), 0700);
  struct stat status {};
  REQUIRE(
      ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
          status.st_uid == ::geteuid() && (status.st_mode & 0077) == 0,
      ExitCode::cannot_create,
      "{} must be a folder that only you can enter, for the ranks to meet in (found {}); remove "
      "it, set TMPDIR, or set MASTER_ADDR",
      folder, errno != 0 ? std::strerror(errno) : "another owner or mode");
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
  return {std::move(store), "file " + path};
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

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string get(const Rendezvous& meeting, const std::string& key, int from_rank) {
  try {
    const auto bytes = meeting.store->get(key);
    return {bytes.begin(), bytes.end()};
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
          "{} ranks on several nodes (by {}) need a place to meet; set MASTER_ADDR to the first "
          "rank's host, for all ranks",
          launch.world_size, launch.launcher);
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
    std::istringstream ours_in(first), theirs_in(theirs);
    std::string one, two;
    while (std::getline(ours_in, one) && std::getline(theirs_in, two) && one == two) {
    }
    fail(ExitCode::config,
         "the ranks do not agree (rank 0 has {}, rank {} has {}); start all of them with the same "
         "program, settings and environment",
         one, other, two);
  }
}

}  // namespace tg
