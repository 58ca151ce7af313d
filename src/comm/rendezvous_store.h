#pragma once
#include "comm/rendezvous.h"

namespace tg {

// The two kinds of rendezvous. get() on their stores fails after the timeout.

// Joins a FileStore in a directory that only this user can access; all ranks are on this host. The
// file is unlinked once all ranks have joined, and freed when the last one exits. Throws
// Error(cannot_create).
Rendezvous file_rendezvous(const LaunchInfo& launch, double timeout_s);

// Joins a TCPStore at MASTER_ADDR:MASTER_PORT; on a loopback address it accepts connections from
// this host alone. Logs at `notices` that it waits for the store. Throws Error(unavailable).
Rendezvous tcp_rendezvous(const LaunchInfo& launch, double timeout_s, NoticeTimes notices);

// Unlinks the file, so that a rank that starts later cannot join this job's store. Does nothing if
// the name now belongs to another job's file.
void unlink_store_file(const StoreFile& file);

}  // namespace tg
