#include "report/run_follower.h"

#include <chrono>
#include <filesystem>
#include <map>

#include "files/json_file.h"

namespace tg {

using nlohmann::json;

json read_run_config(const RunPath& path) {
  json run = {{"path", path.metrics}};
  const json config = read_json_file(path.config);
  const JsonFields fields(config, path.config);
  for (const auto* name : {"settings", "origins"}) {
    fields.require(fields.get(name).is_object(), name, "an object");
    run[name] = config[name];
  }
  for (const auto* name : {"versions", "device"}) run[name] = fields.text(name);
  const auto id = run["settings"].find("RUN_ID");
  run["name"] = id != run["settings"].end() && id->is_string() ? *id : json("run");
  return run;
}

void tell_apart(json& runs) {
  std::map<std::string, int> count;
  for (const auto& run : runs) ++count[run["name"]];
  for (auto& run : runs) {
    if (count[run["name"]] > 1) run["name"] = run["path"];
  }
}

// Restarts from the beginning. Returns whether both files exist.
bool RunFollower::open() {
  reader_.reset();
  events_ = {};
  error_.reset();
  missing_.reset();
  try {
    reader_.emplace(path_.metrics);
    config_ = read_run_config(path_);
  } catch (const Error& error) {
    reader_.reset();
    if (error.exit_code() != ExitCode::missing_input) throw;
    missing_ = error;
  }
  return reader_.has_value();
}

bool RunFollower::read(std::uint64_t max_bytes) {
  const auto from = reader_->position();
  behind_ = false;
  while (const auto event = reader_->next()) {
    events_.add(*event, reader_->place());
    behind_ = reader_->position() - from >= max_bytes;
    if (behind_) break;
  }
  bytes_ = reader_->position() - from;
  return bytes_ > 0;
}

bool RunFollower::follow(std::uint64_t max_bytes) {
  const bool failed_before = error_.has_value();
  bytes_ = 0;
  bool changed = false;
  try {
    if (!reader_ || !reader_->grow()) {
      changed = reader_.has_value();
      if (!open()) return changed;
    }
    if (!error_) changed |= read(max_bytes);
  } catch (const Error& error) {
    // The run may just have truncated its file; then the next call reads from the beginning.
    if (reader_ && reader_->is_replaced()) {
      reader_.reset();
      changed = true;
    } else {
      error_ = error;
    }
  }
  return changed || error_.has_value() != failed_before;
}

nlohmann::json RunFollower::status() const {
  std::error_code gone;
  const auto written = std::filesystem::last_write_time(path_.metrics, gone);
  const std::chrono::duration<double> quiet = std::chrono::file_clock::now() - written;
  return events_.status().as_json(gone ? 0 : quiet.count());
}

nlohmann::json RunFollower::record() const {
  auto run = config_;
  events_.write_to(run);
  run["status"] = status();
  return run;
}

void RunFollower::require_begun() const {
  if (error_) throw Error(*error_);
  if (missing_) throw Error(*missing_);
  REQUIRE(begun(), ExitCode::bad_data, "{}: expected the events of a run, found no \"start\"",
          path_.metrics);
}

nlohmann::json read_run(const RunPath& path) {
  RunFollower run(path);
  run.follow();
  run.require_begun();
  return run.record();
}

}  // namespace tg
