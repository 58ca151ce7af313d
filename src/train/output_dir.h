#pragma once
#include <string>

#include "comm/rendezvous.h"
#include "config/settings.h"

namespace tg {

// Gives a run without RUN_ID a random one (a uuid), settles OUTPUT_DIR (logs/RUN_ID by default,
// with logs/RUN_ID.txt linked to its log) and creates the folder. Rank 0 does it for all ranks; its
// folder is every rank's. Errors: cannot_create.
std::string prepare_output_dir(Settings& settings, const Rendezvous& meeting,
                               const LaunchInfo& launch);

}  // namespace tg
