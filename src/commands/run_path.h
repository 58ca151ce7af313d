#pragma once
#include <string>
#include <vector>

#include "report/run_follower.h"

namespace tg {

// Returns the files of a RUN argument: a run's folder, or a metrics.jsonl in it (metrics.1.jsonl of
// an earlier run). Throws Error(missing_input).
RunPath run_path(const std::string& run);
// Returns the files of a RUN, or of all runs that have a metrics.jsonl in a folder of runs'
// folders, such as logs, ordered by name. Throws Error(missing_input).
std::vector<RunPath> runs_in(const std::string& run_or_folder);

}  // namespace tg
