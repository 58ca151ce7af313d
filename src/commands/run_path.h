#pragma once
#include <string>

#include "report/run_record.h"

namespace tg {

// The files of a RUN on a command line: a run's folder, or a metrics.jsonl in it (metrics.1.jsonl
// of an earlier run). Errors: missing_input.
RunPath run_path(const std::string& run);

}  // namespace tg
