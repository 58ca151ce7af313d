#include "model_io/stored_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "config/types/text.h"
#include "files/file_digest.h"
#include "files/json_file.h"
#include "run_log/end_events.h"
#include "run_log/metrics_reader.h"
#include "run_log/run_files.h"
#include "run_log/start_events.h"
#include "run_log/step_events.h"

namespace tg {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns FILE.record.json.
std::string record_path(const std::string& file) {
  return fmt::format("{}{}", file, kRecordEnding);
}

std::optional<ModelRecord> record_beside(const std::string& file) {
  const auto path = record_path(file);
  if (!exists(path)) return std::nullopt;
  const auto value = read_json_file(path);
  const auto record = record_of_json(value, path);
  if (digest_of_json(value, path) == digest_of(file)) return record;
  log_warn("{}: is the record of another {} (expected its bytes and XXH3, found others); left out",
           path, fs::path(file).filename().string());
  return std::nullopt;
}

// Returns the record in the config.json of a folder that export wrote for transformers; nothing if
// there is none.
std::optional<ModelRecord> record_in_config(const std::string& file) {
  const auto name = fs::path(file).filename().string();
  if (!name.starts_with("model.safetensors")) return std::nullopt;
  const auto path = fs::path(file).parent_path() / "config.json";
  if (!exists(path)) return std::nullopt;
  const auto config = read_json_file(path);
  const auto record = config.find(kRecordKey);
  if (record == config.end()) return std::nullopt;
  return record_of_json(*record, fmt::format("{}: \"{}\"", path.string(), kRecordKey));
}

// Facts in a run's metrics.jsonl about its final model's file.
struct RunHistory {
  std::int64_t step = 0;                        // step at which the file was written
  std::map<std::int64_t, std::int64_t> stages;  // stage by the step before which it began
  std::optional<std::int64_t> qat_from;
};

// Reads the history. An extended run wrote the file before it resumed: if no other end follows, the
// file's step is the step of the last resume.
RunHistory history_of(const std::string& metrics) {
  RunHistory history;
  std::int64_t step = 0;
  std::optional<std::int64_t> written, resumed;
  MetricsReader events(metrics);
  while (const auto event = events.next()) {
    const auto is = [&, name = (*event)["event"].get<std::string>()](const EventName& known) {
      return name == known.name;
    };
    if (is(StepEnded::kEvent)) step = (*event)["step"];
    if (is(Resumed::kEvent)) resumed = (*event)["step"];
    if (is(StageStarted::kEvent)) history.stages[(*event)["step"]] = (*event)["stage"];
    if (is(LateQatStarted::kEvent)) history.qat_from = (*event)["step"];
    if (is(ModelWritten::kEvent)) written = step;
  }
  history.step = written.value_or(resumed.value_or(step));
  return history;
}

}  // namespace

std::uint64_t write_record_beside(const std::string& file, const ModelRecord& record) {
  auto value = record_json(record);
  value.update(digest_json(digest_of(file)));
  write_json_file(record_path(file), value);
  return fs::file_size(record_path(file));
}

std::optional<ModelRecord> stored_record(const std::string& file,
                                         const std::map<std::string, std::string>& metadata) {
  const auto entry = metadata.find(kRecordKey);
  if (entry != metadata.end())
    return record_of_text(entry->second, fmt::format("{}: its metadata \"{}\"", file, kRecordKey));
  if (auto record = record_beside(file)) return record;
  return record_in_config(file);
}

ModelRecord inferred_record(const Settings& settings, const Plan& plan, const ModelPath& model) {
  const auto& averaging = settings.averaging;
  const auto last = plan.scored_stage(plan.last_stage());
  const bool keeps_qat = settings.ttt.ttt_enabled && settings.runtime.record_quirks &&
                         !averaging.qat_enabled && averaging.late_qat_threshold > 0;
  ModelRecord record{.recipe = std::string(choice_name(settings.model.recipe)),
                     .stage = last,
                     .qat = averaging.qat_enabled};
  const auto metrics = file_of_run(model, "metrics.jsonl");
  std::string by;
  try {
    const auto history = history_of(metrics);
    record.step = history.step;
    record.qat |= history.qat_from && *history.qat_from < history.step;
    record.stage = 0;
    for (const auto& [step, stage] : history.stages)
      if (step < history.step) record.stage = std::min(stage, last);
    by = fmt::format("by {}, after {} steps", metrics, record.step);
  } catch (const Error& error) {  // missing or damaged metrics
    by = fmt::format("without its run's metrics ({})", error.what());
  }
  if (last > 0)
    log_note("{}: no record of its stage is stored with it; taken as {}, {}", model.path,
             plan.stages[static_cast<std::size_t>(record.stage)].title, by);
  if (keeps_qat)
    log_note("{}: no record of QAT is stored with it; taken as trained {} it, {}", model.path,
             record.qat ? "with" : "without", by);
  return record;
}

std::int64_t stage_to_compute(const Plan& plan, const ModelRecord& record) {
  const auto last = plan.scored_stage(plan.last_stage());
  if (last == 0) return 0;
  REQUIRE(record.stage <= last, ExitCode::config,
          "the model is in stage {}, and the settings have stages 0 to {} (RECIPE={} trained it); "
          "expected the settings of its run",
          record.stage, last, record.recipe);
  return record.stage;
}

}  // namespace tg
