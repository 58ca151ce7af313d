#include "train/report.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/uptime.h"
#include "config/resolved.h"

namespace tg {

namespace {

std::string fresh(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);  // a run that failed before its first step wrote it
  return path;
}

std::string header_text(const Settings& settings, const Machine& machine) {
  return settings_text(settings) + version_text() + "device " + machine.device_name;
}

bool is_of_one_rank(const RunEvent& event) {
  return std::holds_alternative<TokensStalled>(event) ||
         std::holds_alternative<TokensRepeated>(event);
}

}  // namespace

Report::Report(const std::string& dir, const Settings& settings, const Origins& origins,
               const Machine& machine, const Communicator& communicator)
    : rank_(communicator.rank()), log_(settings, machine, communicator.world_size()) {
  if (rank_ != 0) return;
  files_.emplace(dir);
  metrics_.emplace(fresh(files_->path("metrics.jsonl")));
  open_log_file(files_->path("log.txt"), header_text(settings, machine));
  auto config = settings_json(settings, origins);
  config["versions"] = version_text();
  config["device"] = machine.device_name;
  write_json_file(files_->path("config.json"), config);
}

void Report::emit(const RunEvent& event) {
  if (rank_ != 0 && !is_of_one_rank(event)) return;
  std::visit(log_, event);
  if (metrics_) std::visit(*metrics_, event);
}

void Report::first_step() {
  take_names();
  emit(FirstStepEnded{process_uptime_ms()});
}

void Report::take_names() {
  if (!files_) return;
  files_->take_names();
  metrics_->renamed(files_->path("metrics.jsonl"));
}

}  // namespace tg
