#pragma once
// State of a run, inferred from its events and their timing.
#include <cstdint>
#include <nlohmann/json.hpp>

namespace tg {

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

}  // namespace tg
