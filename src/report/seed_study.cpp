#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "report/statistics.h"
#include "run_log/metrics_reader.h"

namespace tg {
namespace {

using Scores = std::vector<std::pair<std::string, double>>;  // in the order of the file

void set(Scores& scores, const std::string& name, const nlohmann::json& event, const char* field,
         double scale = 1) {
  const auto found = event.find(field);
  if (found == event.end() || !found->is_number()) return;
  const double value = found->get<double>() * scale;
  const auto known = std::ranges::find(scores, name, &Scores::value_type::first);
  if (known == scores.end()) {
    scores.emplace_back(name, value);
  } else {
    known->second = value;
  }
}

Scores last_scores(const std::string& metrics) {
  Scores scores;
  MetricsReader events(metrics);
  while (const auto event = events.next()) {
    const auto& kind = event->at("event");
    if (kind == "val") {
      set(scores, "val_loss", *event, "val_loss");
      set(scores, "val_bpb", *event, "val_bpb");
    } else if (kind == "final") {
      const auto name = event->at("name").get<std::string>();
      set(scores, name + " loss", *event, "val_loss");
      set(scores, name + " bpb", *event, "val_bpb");
    } else if (kind == "train") {
      set(scores, "training seconds", *event, "train_time_ms", 1e-3);
    }
  }
  return scores;
}

using Group = std::vector<Scores>;

Group read_group(const std::vector<std::string>& runs) {
  Group group;
  for (const auto& run : runs) group.push_back(last_scores(run));
  return group;
}

// Returns the values of a score in a group; fewer than its runs if some lack it.
std::vector<double> values_of(const Group& group, const std::string& name) {
  std::vector<double> values;
  for (const auto& scores : group) {
    const auto found = std::ranges::find(scores, name, &Scores::value_type::first);
    if (found != scores.end()) values.push_back(found->second);
  }
  return values;
}

std::string number(double value, const char* form = "{:.6g}") {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(form), value);
}

std::string sample_cells(const Sample& sample) {
  return fmt::format(" {:>4} {:>12} {:>10} {:>12} {:>12}", sample.count, number(sample.mean),
                     number(sample.deviation, "{:.3g}"), number(sample.least),
                     number(sample.greatest));
}

constexpr const char* kSampleHead = " {:>4} {:>12} {:>10} {:>12} {:>12}";

}  // namespace

std::string seed_study_text(const SeedStudy& study) {
  const auto runs = read_group(study.runs), others = read_group(study.against);
  std::string lines;
  for (const auto& [name, _] : runs.front()) {
    const auto values = values_of(runs, name), other_values = values_of(others, name);
    if (values.size() < runs.size() || other_values.size() < others.size()) continue;
    const auto sample = sample_of(values);
    lines += fmt::format("{:36}", name) + sample_cells(sample);
    if (study.below)
      lines += fmt::format(" {:>9}", number(p_below(sample, *study.below), "{:.2g}"));
    if (!others.empty()) {
      const auto other = sample_of(other_values);
      lines += sample_cells(other) + fmt::format(" {:>12} {:>9}",
                                                 number(sample.mean - other.mean, "{:+.4g}"),
                                                 number(p_different(sample, other), "{:.2g}"));
    }
    lines += '\n';
  }
  REQUIRE(!lines.empty(), ExitCode::bad_data,
          "{}: no number that all runs have (expected a validation or a final score in each)",
          study.runs.front());
  auto head = fmt::format("{:36}", "last of each run") +
              fmt::format(kSampleHead, "runs", "mean", "deviation", "least", "greatest");
  if (study.below) head += fmt::format(" {:>9}", fmt::format("p < {:g}", *study.below));
  if (!others.empty())
    head += fmt::format(kSampleHead, "runs", "against", "deviation", "least", "greatest") +
            fmt::format(" {:>12} {:>9}", "difference", "p");
  return head + "\n" + lines;
}

}  // namespace tg
