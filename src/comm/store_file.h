#pragma once
#include "comm/rendezvous.h"

namespace tg {

// Opens or creates the FileStore's file and locks it (shared) until the process ends, so the lock
// outlives a process group that fails. A file without a lock belongs to a job whose ranks were
// killed before all had joined; it is truncated first, except on NFS, where no lock is taken.
// Errors: cannot_create.
StoreFile open_store_file(const std::string& path);

// Removes the file's name, so that a rank that starts later cannot join this job's store. Does
// nothing where the name now belongs to another job's file.
void unlink_store_file(const StoreFile& file);

}  // namespace tg
