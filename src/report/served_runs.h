#pragma once
// Serves runs to a browser while they train.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/run_follower.h"

namespace tg {

class ServedRuns {
 public:
  // `find` lists the existing runs; every call below calls it again, so new runs are followed too.
  // If there are more than kMaxRuns, follows the runs written to last. Exceptions of `find` pass
  // through.
  explicit ServedRuns(std::function<std::vector<RunPath>()> find) : find_(std::move(find)) {}

  // Each function reads the appended events, at most kMaxBytes a call.

  // Returns the report of the runs, a page that polls changes().
  std::string page();
  // Returns the changes since the answer with that "version" (0: everything), as JSON:
  //   "version"; "reading": there is more to read; "left_out": runs beyond kMaxRuns;
  //   "paths", "statuses": of all runs, in order; "runs": the complete read_run() objects that
  //   changed;
  //   "errors": [{"path", "text"}].
  std::string changes(std::uint64_t since);

  static constexpr std::size_t kMaxRuns = 32;
  static constexpr std::uint64_t kMaxBytes = 8 << 20;

 private:
  struct Run {
    explicit Run(const RunPath& files) : path(files.metrics), follower(files) {}
    std::string path;  // metrics.jsonl
    RunFollower follower;
    std::string name = {};      // as last sent
    std::uint64_t version = 0;  // version of the last change
  };

  void update();
  void find_runs();
  void name_runs();
  nlohmann::json state(std::uint64_t since) const;

  std::function<std::vector<RunPath>()> find_;
  std::list<Run> runs_;
  std::size_t left_out_ = 0;
  bool reading_ = false;
  std::uint64_t version_ = 0;
};

}  // namespace tg
