#pragma once
#include "comm/rendezvous.h"

namespace tg {

// Both give a place whose store gives up waiting after the timeout.

// On this host, in a folder that only this user can enter. The file has a name only until all ranks
// have come, and is gone with the last of them, however that ends. Errors: cannot_create.
Rendezvous meet_in_file(const LaunchInfo& launch, double timeout_s);

// At MASTER_ADDR:MASTER_PORT; when that is a loopback address nobody else can reach it. Errors:
// unavailable.
Rendezvous meet_at_address(const LaunchInfo& launch, double timeout_s);

}  // namespace tg
