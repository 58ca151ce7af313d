#include "comm/rendezvous.h"

#include <sstream>
#include <thread>

#include "base/elapsed.h"
#include "base/error.h"
#include "comm/convert.h"
#include "comm/rendezvous_store.h"

namespace tg {

namespace {

// Returns the first pair of lines that differ.
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

std::string get(const Rendezvous& rendezvous, const std::string& key, int from_rank) {
  try {
    return text_of(rendezvous.store->get(key));
  } catch (const std::exception&) {
    if (!rendezvous.file.path.empty()) unlink_store_file(rendezvous.file);
    fail(ExitCode::unavailable,
         "rank {} did not join at {} within {:.0f} s; see whether it started, and its own message",
         from_rank, rendezvous.endpoint, seconds(rendezvous.store->getTimeout()));
  }
}

// Returns the key that a rank sets when it joins; require_same() compares the values.
std::string settings_key(int rank) {
  return fmt::format("settings/{}", rank);
}

}  // namespace

Rendezvous join_rendezvous(const LaunchInfo& launch, double timeout_s, NoticeTimes notices) {
  if (launch.world_size == 1) return {{}, "none needed"};
  if (!launch.master_addr.empty()) return tcp_rendezvous(launch, timeout_s, notices);
  REQUIRE(launch.one_node && !launch.job.empty(), ExitCode::usage,
          "{} ranks (by {}{}) need a rendezvous; set MASTER_ADDR to the first rank's host, for "
          "all ranks",
          launch.world_size, launch.launcher, launch.one_node ? "" : ", on several nodes");
  return file_rendezvous(launch, timeout_s);
}

std::string broadcast_from_rank_0(const Rendezvous& rendezvous, const LaunchInfo& launch,
                                  const std::string& key, const std::string& value) {
  if (!rendezvous.store) return value;
  if (launch.rank == 0) rendezvous.store->set(key, bytes_of(value));
  return get(rendezvous, key, 0);
}

std::string waiting_line(const Rendezvous& rendezvous, const LaunchInfo& launch) {
  std::vector<int> missing;
  try {
    // A blocking get() holds a TCPStore's lock, so it is cloned; a FileStore may be used
    // concurrently, and a clone would write to its file.
    const auto store = rendezvous.file.path.empty() ? rendezvous.store->clone() : rendezvous.store;
    for (int rank = 0; rank < launch.world_size; ++rank) {
      const bool joined = rank == launch.rank || store->check({settings_key(rank)});
      if (joined && rank < launch.rank) return "";
      if (!joined) missing.push_back(rank);
    }
  } catch (const std::exception&) {
    return "";  // the store is gone; get() says so
  }
  if (missing.empty()) return "";
  return fmt::format("waiting for {} of {} ({}); {}", ranks_text(missing), launch.world_size,
                     launch.size_variable, launch.start_hint);
}

void require_same(const Rendezvous& rendezvous, const LaunchInfo& launch, const std::string& lines,
                  NoticeTimes notices) {
  if (!rendezvous.store) return;
  rendezvous.store->set(settings_key(launch.rank), bytes_of(lines));
  const WaitNotice notice(notices, [&] { return waiting_line(rendezvous, launch); });
  const auto first = get(rendezvous, settings_key(0), 0);
  // Every rank compares all ranks, so that all fail with the same message.
  for (int other = 1; other < launch.world_size; ++other) {
    const auto theirs = get(rendezvous, settings_key(other), other);
    if (theirs == first) continue;
    const auto [one, two] = first_difference(first, theirs);
    // Rank 0's process may serve the TCPStore: it waits, for at most 5 s, until all ranks have
    // compared.
    rendezvous.store->add("compared", 1);
    for (int tries = 0; launch.rank == 0 && tries < 50; ++tries) {
      if (rendezvous.store->add("compared", 0) >= launch.world_size) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    fail(ExitCode::config,
         "the ranks do not agree (rank 0 has {}, rank {} has {}); start all of them with the same "
         "program, settings and environment",
         one, other, two);
  }
}

}  // namespace tg
