#pragma once
#include "comm/rendezvous.h"

namespace tg {

// The two kinds of rendezvous. A get() of their stores fails after the timeout.

// A FileStore in a directory that only this user can access; all ranks on this host. The file is
// unlinked once all ranks have joined, and freed when the last one exits. Errors: cannot_create.
Rendezvous file_rendezvous(const LaunchInfo& launch, double timeout_s);

// A TCPStore at MASTER_ADDR:MASTER_PORT; on a loopback address it accepts connections from this
// host alone. Says at `notices` that it waits for the store. Errors: unavailable.
Rendezvous tcp_rendezvous(const LaunchInfo& launch, double timeout_s, NoticeTimes notices);

// Removes the file's name, so that a rank that starts later cannot join this job's store. Does
// nothing where the name now belongs to another job's file.
void unlink_store_file(const StoreFile& file);

}  // namespace tg
