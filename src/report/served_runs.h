#pragma once
// Runs that a browser follows while they train.
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
  // `find` lists the runs there are, again at every call below: new ones are followed too, and of
  // more than kMost those that were written to last. Errors of `find` pass.
  explicit ServedRuns(std::function<std::vector<RunPath>()> find) : find_(std::move(find)) {}

  // Each reads what the runs have appended, at most kMostBytes and what is left the next time.
  // The report of the runs, which asks for changes() while it is shown.
  std::string page();
  // What has changed since an answer of that "version" (0: everything), as JSON:
  //   "version"; "reading": there is more to read; "left_out": runs beyond kMost;
  //   "paths", "statuses": of all runs, in order; "runs": objects of read_run() that changed, each
  //   all of it;
  //   "errors": [{"path", "text"}].
  std::string changes(std::uint64_t since);

  static constexpr std::size_t kMost = 32;
  static constexpr std::uint64_t kMostBytes = 8 << 20;

 private:
  struct Run {
    explicit Run(const RunPath& files) : path(files.metrics), follower(files) {}
    std::string path;  // metrics.jsonl
    RunFollower follower;
    std::string name = {};      // as it was last sent
    std::uint64_t version = 0;  // of its last change
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
