#pragma once
#include "comm/rendezvous.h"

namespace tg {

// The file of that name, open and locked to the end of the process: what is left of a broken group
// may outlive everything else. A file that no living rank has locked was left by ranks that were
// killed before all had come, and begins anew, unless it lies on NFS. Errors: cannot_create.
MeetingFile open_meeting_file(const std::string& path);

// Who comes now finds nobody any more. Another run's file of that name stays.
void remove_name(const MeetingFile& file);

}  // namespace tg
