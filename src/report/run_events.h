#pragma once
// The events of a metrics.jsonl as they come, in the form that the page draws.
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
  // `place`: "PATH:LINE". Errors: bad_data, beginning with it.
  void add(const nlohmann::json& event, const std::string& place);
  // Whether the event `start` was among them: without it there is nothing to draw.
  bool begun() const { return last_.contains("start"); }
  const RunStatus& status() const { return status_; }
  // All of what read_run() describes but "status" and the fields of config.json. Needs begun().
  void write_to(nlohmann::json& run) const;

 private:
  // The first and the last hundred of a kind of event.
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
