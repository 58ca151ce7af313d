#pragma once
// The rendezvous of a run's ranks: a key-value store that all of them share, and the values they
// exchange through it before the first collective.
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/wait_notice.h"
#include "config/launch.h"

namespace tg {

using Store = c10::intrusive_ptr<c10d::Store>;

// Seconds that ranks wait for each other until the end of the first step: start-up, loading and
// kernel selection take some ranks far longer than a training step.
constexpr double kStartTime_s = 300;

// The file of a FileStore, open and locked.
struct StoreFile {
  std::string path;
  int descriptor = -1;
};

struct Rendezvous {
  Store store;           // null for a single rank
  std::string endpoint;  // for the log: "tcp HOST:PORT", "file PATH"
  StoreFile file = {};   // of a FileStore; otherwise its path is empty
};

// A TCPStore at MASTER_ADDR:MASTER_PORT (torchrun's own where its agent has one, else rank 0's),
// or, without MASTER_ADDR and on one node, a FileStore in a directory that only this user can
// access. While the TCPStore does not answer, this rank says so at `notices`.
// Errors: usage (several nodes and no MASTER_ADDR), unavailable (the port is in use, or rank 0 did
// not listen there within the timeout), cannot_create.
Rendezvous join_rendezvous(const LaunchInfo& launch, double timeout_s, NoticeTimes notices = {});

// Rank 0's value, on every rank; the other ranks' `value` is ignored. Errors: unavailable (rank 0
// did not set it within the timeout).
std::string broadcast_from_rank_0(const Rendezvous& rendezvous, const LaunchInfo& launch,
                                  const std::string& key, const std::string& value);

// What this rank says while it waits in require_same(): which ranks have not joined. Empty where
// all have, or a lower rank has, which says it.
std::string waiting_line(const Rendezvous& rendezvous, const LaunchInfo& launch);

// Requires `lines`, of the form NAME=value, to be the same on every rank, and waits for all of
// them; at `notices` with waiting_line(). Errors: config, on every rank, naming the first line that
// differs and both values; unavailable (a rank did not join within the timeout).
void require_same(const Rendezvous& rendezvous, const LaunchInfo& launch, const std::string& lines,
                  NoticeTimes notices = {});

}  // namespace tg
