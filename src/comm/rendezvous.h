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
// kernel selection may take far longer than a training step.
constexpr double kStartTime_s = 300;

// The file of a FileStore, open and locked.
struct StoreFile {
  std::string path;
  int descriptor = -1;
};

struct Rendezvous {
  Store store;           // null for a single rank
  std::string endpoint;  // for the log: "tcp HOST:PORT", "file PATH"
  StoreFile file = {};   // the FileStore's file; else its path is empty
};

// Joins a TCPStore at MASTER_ADDR:MASTER_PORT (the agent's under torchrun, if it has one, else rank
// 0's), or, without MASTER_ADDR and on one node, a FileStore in a directory that only this user can
// access. While the TCPStore does not answer, this rank logs that at `notices`. Throws Error: usage
// for several nodes without MASTER_ADDR; unavailable if the port is in use or rank 0 does not
// listen on it within the timeout; cannot_create.
Rendezvous join_rendezvous(const LaunchInfo& launch, double timeout_s, NoticeTimes notices = {});

// Returns rank 0's value on every rank; ignores the other ranks' `value`. Throws Error(unavailable)
// if rank 0 does not set it within the timeout.
std::string broadcast_from_rank_0(const Rendezvous& rendezvous, const LaunchInfo& launch,
                                  const std::string& key, const std::string& value);

// Returns the line that this rank logs while it waits in require_same(): the ranks that have not
// joined. Empty if all have joined, or if a lower rank has, which then logs it.
std::string waiting_line(const Rendezvous& rendezvous, const LaunchInfo& launch);

// Waits for all ranks and compares their `lines`, of the form NAME=value. Logs waiting_line() at
// `notices`. Throws Error: config, on every rank, naming the first line that differs and both
// values; unavailable if a rank does not join within the timeout.
void require_same(const Rendezvous& rendezvous, const LaunchInfo& launch, const std::string& lines,
                  NoticeTimes notices = {});

}  // namespace tg
