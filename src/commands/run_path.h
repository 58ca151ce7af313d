#pragma once
#include <string>
#include <vector>

#include "report/run_record.h"

namespace tg {

// The files of a RUN on a command line: a run's folder, or a metrics.jsonl in it (metrics.1.jsonl
// of an earlier run). Errors: missing_input.
RunPath run_path(const std::string& run);
// The files of a RUN, or of all runs in a folder of runs' folders, such as logs, ordered by name:
// those that have a metrics.jsonl now. Errors: missing_input.
std::vector<RunPath> runs_in(const std::string& run_or_folder);

}  // namespace tg
