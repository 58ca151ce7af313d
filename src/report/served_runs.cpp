#include "report/served_runs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "report/page.h"

namespace tg {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Keeps the `max_count` paths that were written to last, in their order.
void keep_newest(std::vector<RunPath>& paths, std::size_t max_count) {
  if (paths.size() <= max_count) return;
  std::vector<fs::file_time_type> times, sorted;
  for (const auto& path : paths) {
    std::error_code ignored;  // a removed file gets the oldest time
    times.push_back(fs::last_write_time(path.metrics, ignored));
  }
  sorted = times;
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(max_count - 1),
                           std::greater());
  std::vector<RunPath> newest;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (times[i] >= sorted[max_count - 1] && newest.size() < max_count) newest.push_back(paths[i]);
  }
  paths = std::move(newest);
}

}  // namespace

void ServedRuns::find_runs() {
  auto paths = find_();
  left_out_ = paths.size() - std::min(paths.size(), kMaxRuns);
  keep_newest(paths, kMaxRuns);
  runs_.remove_if([&](const Run& run) {
    return std::ranges::find(paths, run.path, &RunPath::metrics) == paths.end();
  });
  for (const auto& path : paths) {
    if (std::ranges::find(runs_, path.metrics, &Run::path) == runs_.end()) {
      runs_.emplace_back(path);
    }
  }
}

// Names runs by RUN_ID, or by path if they share it, as tell_apart() does.
void ServedRuns::name_runs() {
  std::map<std::string, int> count;
  for (const auto& run : runs_) ++count[run.follower.name()];
  for (auto& run : runs_) {
    const auto& name = count[run.follower.name()] > 1 ? run.path : run.follower.name();
    if (run.name != name) run.version = version_;
    run.name = name;
  }
}

void ServedRuns::update() {
  find_runs();
  ++version_;
  std::uint64_t left = kMaxBytes;
  reading_ = false;
  for (auto& run : runs_) {
    if (left > 0 && run.follower.follow(left)) run.version = version_;
    reading_ |= left == 0 || run.follower.is_behind();
    left -= std::min(left, run.follower.bytes_read());
  }
  name_runs();
}

json ServedRuns::state(std::uint64_t since) const {
  json state = {{"version", version_},      {"left_out", left_out_}, {"reading", reading_},
                {"paths", json::array()},   {"runs", json::array()}, {"errors", json::array()},
                {"statuses", json::array()}};
  for (const auto& run : runs_) {
    const auto& error = run.follower.error();
    if (error) state["errors"].push_back({{"path", run.path}, {"text", error->what()}});
    if (!run.follower.begun()) continue;
    state["paths"].push_back(run.path);
    state["statuses"].push_back(run.follower.status());
    if (run.version <= since) continue;
    state["runs"].push_back(run.follower.record());
    state["runs"].back()["name"] = run.name;
  }
  return state;
}

std::string ServedRuns::page() {
  update();
  return live_report_page(state(0));
}

std::string ServedRuns::changes(std::uint64_t since) {
  update();
  return state(since).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tg
