#pragma once
// The last scores of groups of runs, with mean, deviation and p-values.
#include <optional>
#include <string>
#include <vector>

namespace tg {

struct SeedStudy {
  std::vector<std::string> runs;     // metrics.jsonl of each run
  std::vector<std::string> against;  // of the runs that they are compared with; may be empty
  std::optional<double> below;       // a bound that means are tested against
};

// Returns a table with a line for each number that all runs have: the last validation, the scores
// of the final weights and the training time. Throws Error: missing_input, io; bad_data if the runs
// have no such number in common, or for what MetricsReader rejects.
std::string seed_study_text(const SeedStudy& study);

}  // namespace tg
