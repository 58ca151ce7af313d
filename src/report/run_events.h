#pragma once
// Accumulates the events of a metrics.jsonl in the form that the page plots.
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/run_status.h"
#include "report/step_tables.h"

namespace tg {

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
  // Keeps the first and the last hundred events of a kind.
  class FirstAndLast {
   public:
    void add(nlohmann::json event);
    void append_to(nlohmann::json& list) const;

   private:
    std::vector<nlohmann::json> first_;
    std::deque<nlohmann::json> last_;
  };

  RunStatus status_;
  StepTables tables_;
  std::map<std::string, FirstAndLast> lists_;
  std::map<std::string, nlohmann::json> last_;
  std::map<std::string, std::int64_t> counts_;
};

}  // namespace tg
