#include "run_log/report.h"

#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/log.h"
#include "base/process_exit.h"
#include "config/resolved.h"
#include "files/append_file.h"
#include "files/json_file.h"
#include "run_log/metrics_sink.h"
#include "run_log/tensorboard_sink.h"

namespace tg {

namespace {

// Truncates the metrics after `step`, whose later steps will be trained again.
void cut_metrics(const std::string& path, std::int64_t step) {
  const bool cut = truncate_after(path, [&](const nlohmann::json& event) {
    return event.value("event", "") == StepEnded::kEvent.name &&
           event.value("step", std::int64_t{-1}) == step;
  });
  if (!cut) log_warn("{}: has no step {}; this run's events follow what is there", path, step);
}

// Returns the milliseconds since the system started this process, including the loading of
// libraries.
double process_uptime_ms() {
  // The 22nd field of /proc/self/stat, in clock ticks since boot; the 2nd may hold spaces and ends
  // in ')'.
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const double started_s =
      std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 - started_s) *
         1000;
}

}  // namespace

Report::Report(const std::string& dir, const Settings& settings, const Origins& origins,
               const Process& process, std::optional<std::int64_t> continues_at)
    : rank_(process.rank), log_(settings, process.world_size) {
  if (rank_ != 0) return;
  files_.emplace(dir, continues_at.has_value());
  const auto metrics = files_->path("metrics.jsonl"), log = files_->path("log.txt"),
             events = files_->path("tensorboard");
  if (continues_at) {
    cut_metrics(metrics, *continues_at);
    cut_tensorboard(events, *continues_at);
    continue_log_file(log);
  } else {
    std::error_code ignored;  // files of a run that failed before its first step
    std::filesystem::remove(metrics, ignored);
    std::filesystem::remove_all(events, ignored);
    open_log_file(log, settings_text(settings) + process.versions + "device " + process.device);
  }
  if (settings.runtime.tensorboard) {
    tensorboard_ = std::make_unique<TensorboardSink>(events, settings, continues_at);
  }
  metrics_ = std::make_unique<MetricsSink>(metrics, [this](const nlohmann::json& event) {
    if (tensorboard_) tensorboard_->write(event);
  });
  auto config = settings_json(settings, origins);
  config["versions"] = process.versions;
  config["device"] = process.device;
  write_json_file(files_->path("config.json"), config);
  listen_to_exit([this](const ProcessExit& ending) {
    (*metrics_)(RunEnded{ending.exit_code, ending.step, ending.what});
  });
}

Report::~Report() {
  if (rank_ == 0) listen_to_exit(nullptr);
}

void Report::emit(const RunEvent& event) {
  if (rank_ != 0 && !std::holds_alternative<TokensStalled>(event)) return;
  log_(event);
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
  if (tensorboard_) tensorboard_->renamed(files_->path("tensorboard"));
}

}  // namespace tg
