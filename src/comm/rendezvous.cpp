#include "comm/rendezvous.h"

#include <sstream>
#include <thread>

#include "base/error.h"
#include "comm/convert.h"
#include "comm/meeting_file.h"
#include "comm/meeting_place.h"

namespace tg {

namespace {

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
    if (!meeting.file.path.empty()) remove_name(meeting.file);
    fail(ExitCode::unavailable,
         "rank {} did not come to {} within {:.0f} s; see whether it started, and its own message",
         from_rank, meeting.place,
         std::chrono::duration<double>(meeting.store->getTimeout()).count());
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

}  // namespace tg
