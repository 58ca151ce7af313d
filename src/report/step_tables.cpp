#include "report/step_tables.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tg {
namespace {

using nlohmann::json;

// More than a picture has pixels.
constexpr std::size_t kParts = 500;

// NaN where there is none.
double number(const json& event, const char* name) {
  const auto found = event.find(name);
  return found == event.end() || found->is_null() ? std::nan("") : found->get<double>();
}

double number_or_0(const json& event, const char* name) {
  const double value = number(event, name);
  return std::isnan(value) ? 0 : value;
}

// Exponential mean over some 20 steps, in which the first ones have no more weight than others.
std::vector<double> smoothed(const std::vector<double>& values) {
  constexpr double kDecay = 1 - 2.0 / (20 + 1);
  double sum = 0, weight = 0;
  std::vector<double> means;
  means.reserve(values.size());
  for (const double value : values) {
    if (!std::isnan(value)) {
      sum = kDecay * sum + (1 - kDecay) * value;
      weight = kDecay * weight + (1 - kDecay);
    }
    means.push_back(weight > 0 ? sum / weight : std::nan(""));
  }
  return means;
}

const std::vector<double>& values_of(const Table& table, std::string_view name) {
  return std::ranges::find(table.columns, name, &Table::Column::name)->values;
}

}  // namespace

std::int64_t StepTables::last_step() const {
  const auto& steps = train_.columns.front().values;
  return steps.empty() ? 0 : static_cast<std::int64_t>(steps.back());
}

StepTables::Position StepTables::at(double step) const {
  const auto& steps = train_.columns[0].values;
  const auto behind = std::upper_bound(steps.begin(), steps.end(), step);
  if (behind == steps.begin()) return {};
  const auto row = static_cast<std::size_t>(behind - steps.begin() - 1);
  return {train_.columns[1].values[row], train_.columns[2].values[row]};
}

void StepTables::add_timing(const json& event) {
  timing_ = event;
}

void StepTables::add_train(const json& event, const std::string& place) {
  const auto step = event["step"].get<std::int64_t>();
  REQUIRE(step > last_step(), ExitCode::bad_data,
          "{}: step: expected one above {}, that of the train event before, found {}", place,
          last_step(), step);
  const auto before = at(static_cast<double>(last_step()));
  const auto steps = static_cast<double>(step - last_step());
  const double ms = number(event, "train_time_ms");
  // Metrics of earlier versions do not have them.
  const double tokens =
      event.contains("tokens") ? number(event, "tokens") - before.tokens : steps * tokens_per_step_;
  const double rate = ms > before.ms ? tokens / (ms - before.ms) * 1000 : std::nan("");
  const double position = static_cast<double>(step);
  const bool timed = timing_ && (*timing_)["step"] == step;
  train_.add_row({position, ms, before.tokens + tokens, number(event, "train_loss"),
                  number(event, "lr_scale"), number(event, "grad_norm"), rate,
                  timed ? number(*timing_, "data_wait_ms") : std::nan("")});
  if (!timed) return;
  const auto phase = [&](const char* name) { return number_or_0(*timing_, name); };
  const double micro_steps = phase("micro_steps");
  const double waited = phase("data_wait_ms"), forward = micro_steps * phase("forward_ms"),
               backward = micro_steps * phase("backward_ms"), clip = phase("grad_clip_ms"),
               optimizer = phase("optimizer_ms");
  const double rest = phase("step_ms") - waited - forward - backward - clip - optimizer;
  phases_.add_row({position, ms, before.tokens + tokens, waited, forward, backward, clip, optimizer,
                   std::max(rest, 0.0), phase("comm_ms")});
}

void StepTables::add_val(const json& event) {
  const double step = number(event, "step");
  val_.add_row({step, 0, 0, number(event, "val_loss"), number(event, "val_bpb"),
                number(event, "val_time_ms")});
}

void StepTables::write_to(json& run) const {
  Table train = train_, val = val_;
  train.columns.push_back({"smooth_loss", true, smoothed(values_of(train_, "loss"))});
  for (std::size_t row = 0; row < val.rows(); ++row) {
    const auto position = at(val.columns[0].values[row]);
    val.columns[1].values[row] = position.ms;
    val.columns[2].values[row] = position.tokens;
  }
  run["train"] = table_json(thinned(train, kParts), train.rows());
  run["phases"] = table_json(averaged(phases_, kParts), phases_.rows());
  run["val"] = table_json(thinned(val, kParts), val.rows());
}

}  // namespace tg
