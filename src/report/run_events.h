#pragma once
// Accumulates the events of a metrics.jsonl in the form that the page plots.
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/step_tables.h"

namespace tg {

// State of a run, inferred from its events and their timing.
class RunStatus {
 public:
  // Adds the next event.
  void add(const nlohmann::json& event);

  // Returns {"kind", "text"} for a file that was last written to `quiet_s` ago: the kind is
  // "starting", "training", "scoring" (of the final weights), "ended", "stopped" (with an exit code
  // other than 0), or "silent", if one of the first three is quiet for unusually long; the text is
  // "stopped at step 40, exit 75" or "training, no line for 3 min".
  nlohmann::json as_json(double quiet_s) const;
  // Returns the event `exit` if it is the last event; else null.
  const nlohmann::json& exit() const { return exit_; }

 private:
  const char* work() const;

  nlohmann::json exit_;
  std::int64_t step_ = 0;
  double last_ms_ = 0;
  double longest_s_ = 0;  // longest step or validation so far
  bool steps_ = false, closing_ = false;
};

class RunEvents {
 public:
  // `place`: "PATH:LINE". Throws Error(bad_data), beginning with `place`.
  void add(const nlohmann::json& event, const std::string& place);
  // Whether the event `start` was added; without it there is nothing to plot.
  bool begun() const { return last_.contains("start"); }
  const RunStatus& status() const { return status_; }
  // Writes the fields that read_run() describes, except "status" and the fields of config.json.
  // Precondition: begun().
  void write_to(nlohmann::json& run) const;

 private:
  RunStatus status_;
  StepTables tables_;
  std::map<std::string, std::vector<nlohmann::json>> lists_;  // the first and last of each kind
  std::map<std::string, nlohmann::json> last_;
  std::map<std::string, std::int64_t> counts_;
};

}  // namespace tg
