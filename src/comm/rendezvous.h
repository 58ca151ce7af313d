#pragma once
// Where the ranks of a run find each other, and what they tell one another before the first
// collective.
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "config/launch.h"

namespace tg {

using Store = c10::intrusive_ptr<c10d::Store>;

// Up to the end of the first step ranks differ by more than they do in training: they start, load,
// and choose their kernels.
constexpr double kStartTime_s = 300;

// Where the ranks of one host meet.
struct MeetingFile {
  std::string path;
  int descriptor = -1;
};

struct Rendezvous {
  Store store;            // keys and values that all ranks see; null for one rank alone
  std::string place;      // for the log
  MeetingFile file = {};  // of a FileStore, else without a path
};

// A TCPStore at MASTER_ADDR:MASTER_PORT (torchrun's own where its agent has one, else rank 0's),
// or, without MASTER_ADDR and on one node, a FileStore in a folder that only this user can enter.
// Errors: usage (several nodes and no MASTER_ADDR), unavailable (the port is in use, or the ranks
// did not come within the timeout), cannot_create.
Rendezvous meet(const LaunchInfo& launch, double timeout_s);

// Rank 0's value, on every rank.
std::string share_from_rank_0(const Rendezvous& meeting, const LaunchInfo& launch,
                              const std::string& key, const std::string& value);

// Every rank brings lines of NAME=value, which must be the same on all of them.
// Errors: config, on every rank, naming the first line that differs and both its values.
void require_same(const Rendezvous& meeting, const LaunchInfo& launch, const std::string& lines);

}  // namespace tg
