#pragma once
// First step of every command that computes: sets up this process as one rank on its machine.
#include <string>
#include <vector>

#include "comm/rendezvous.h"
#include "config/check.h"
#include "config/launch.h"
#include "config/settings.h"
#include "process/machine.h"
#include "run_log/events.h"

namespace tg {

struct Joined {
  LaunchInfo launch;
  Machine machine;
  Rendezvous rendezvous;

  RanksJoined event() const;
};

// Checks the settings that `use` reads, sets up log, environment and machine, and joins the
// rendezvous of the ranks, which must have the same settings. Rank 0 prints `notices` once the
// settings are checked. Throws Error: usage and config (settings, launch, machine), unavailable.
Joined join_ranks(const Settings& settings, const Origins& origins, SettingsUse use,
                  const std::vector<std::string>& notices = {});
// join_ranks() for a command of one process. Also throws Error(usage) under a launcher of several.
Joined join_alone(const Settings& settings, const Origins& origins, SettingsUse use,
                  const std::string& command);

}  // namespace tg
