#include "report/step_tables.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace tg {
namespace {

using nlohmann::json;

// Returns the number of that name; NaN if it is absent or null.
double number(const json& event, const char* name) {
  const auto found = event.find(name);
  return found == event.end() || found->is_null() ? std::nan("") : found->get<double>();
}

// Returns {training time in ms, tokens} at the end of a step, interpolated linearly between the
// kept `rows` of the table "train"; {0, 0} before the first.
std::pair<double, double> position_at(double step, const std::vector<Row>& rows) {
  const auto after =
      std::ranges::upper_bound(rows, step, {}, [](const Row& row) { return row[0]; });
  if (after == rows.begin()) return {0, 0};
  const Row& before = *(after - 1);
  if (after == rows.end() || before[0] == step) return {before[1], before[2]};
  const double fraction = (step - before[0]) / ((*after)[0] - before[0]);
  return {std::lerp(before[1], (*after)[1], fraction), std::lerp(before[2], (*after)[2], fraction)};
}

}  // namespace

double StepTables::SmoothLoss::add(double loss) {
  constexpr double kDecay = 1 - 2.0 / (20 + 1);
  if (!std::isnan(loss)) {
    sum_ = kDecay * sum_ + (1 - kDecay) * loss;
    weight_ = kDecay * weight_ + (1 - kDecay);
  }
  return weight_ > 0 ? sum_ / weight_ : std::nan("");
}

void StepTables::set_defaults(const json& start) {
  tokens_per_step_ = number(start, "tokens_per_step");
  flops_per_token_ = number(start, "flops_per_token");
}

void StepTables::add_train(const json& event, const std::string& place) {
  const auto step = event["step"].get<std::int64_t>();
  REQUIRE(step > last_step_, ExitCode::bad_data,
          "{}: step: expected one above {}, that of the train event before, found {}", place,
          last_step_, step);
  const double ms = number(event, "train_time_ms"), loss = number(event, "train_loss");
  // Metrics of earlier versions do not have `tokens` and `flops_per_token`.
  const double tokens = event.contains("tokens")
                            ? number(event, "tokens") - last_tokens_
                            : static_cast<double>(step - last_step_) * tokens_per_step_;
  const double rate = ms > last_ms_ ? tokens / (ms - last_ms_) * 1000 : std::nan("");
  const double flops =
      event.contains("flops_per_token") ? number(event, "flops_per_token") : flops_per_token_;
  last_step_ = step;
  last_ms_ = ms;
  last_tokens_ += tokens;
  const auto position = static_cast<double>(step);
  const bool timed = timing_ && (*timing_)["step"] == step;
  train_.add_row({position, ms, last_tokens_, loss, number(event, "lr_scale"),
                  number(event, "grad_norm"), rate, rate * flops,
                  timed ? number(*timing_, "data_wait_ms") : std::nan(""), smooth_loss_.add(loss)});
  if (!timed) return;
  const auto phase = [&](const char* name) {
    const double value = number(*timing_, name);
    return std::isnan(value) ? 0 : value;
  };
  const double micro_steps = phase("micro_steps");
  const double waited = phase("data_wait_ms"), forward = micro_steps * phase("forward_ms"),
               backward = micro_steps * phase("backward_ms"), clip = phase("grad_clip_ms"),
               optimizer = phase("optimizer_ms");
  const double rest = phase("step_ms") - waited - forward - backward - clip - optimizer;
  phases_.add_row({position, ms, last_tokens_, waited, forward, backward, clip, optimizer,
                   std::max(rest, 0.0), phase("comm_ms")});
}

void StepTables::add_val(const json& event) {
  val_.add_row({number(event, "step"), 0, 0, number(event, "val_loss"), number(event, "val_bpb"),
                number(event, "val_time_ms")});
}

void StepTables::write_to(json& run) const {
  const auto train = train_.kept();
  auto val = val_.kept();
  for (auto& row : val) std::tie(row[1], row[2]) = position_at(row[0], train);
  for (auto& mark : run["marks"]) {
    std::tie(mark["ms"], mark["tokens"]) = position_at(mark["step"].get<double>(), train);
  }
  run["train"] = train_.json(train);
  run["phases"] = phases_.json();
  run["val"] = val_.json(val);
}

}  // namespace tg
