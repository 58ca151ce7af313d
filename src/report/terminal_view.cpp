#include "report/terminal_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/elapsed.h"
#include "base/escaped.h"
#include "base/utf8.h"
#include "run_log/events.h"

namespace tg {
namespace {

using nlohmann::json;

constexpr std::size_t kLabel = 10;     // width of the chart's label
constexpr std::size_t kExitLines = 3;  // most lines of the exit's message
constexpr std::size_t kOtherLines =
    10;  // lines besides the chart, including kExitLines and the cursor's
constexpr std::size_t kMaxChartRows = 16;

std::vector<double> column(const json& run, const char* table, const char* name) {
  std::vector<double> values;
  for (const auto& value : run[table]["columns"][name]) {
    values.push_back(value.is_null() ? std::nan("") : value.get<double>());
  }
  return values;
}

double last_of(const std::vector<double>& values) {
  return values.empty() ? std::nan("") : values.back();
}

double setting(const json& run, const char* name) {
  const auto found = run["settings"].find(name);
  return found != run["settings"].end() && found->is_number() ? found->get<double>() : 0;
}

// Returns at most `columns` bytes of a line, escaped, without splitting a character.
std::string fitted(const std::string& line, std::size_t columns) {
  const auto text = escaped(line, line.size());
  if (text.size() <= columns) return text;
  constexpr std::size_t kDots = 3;
  auto end = columns > kDots ? columns - kDots : 0;
  while (end > 0 && continues_utf8_character(text[end])) --end;
  return text.substr(0, end) + std::string(std::min(columns, kDots), '.');
}

// Returns the axis: the first and last step below the chart, or the first alone if both do not fit.
std::string axis(double first, double last, std::size_t columns) {
  const auto begin = fmt::format("{:>{}}step {:.0f}", "", kLabel, first);
  const auto end = fmt::format("{:.0f}", last);
  if (begin.size() + 1 + end.size() > columns) return fitted(begin, columns);
  return begin + fmt::format("{:>{}}", end, columns - begin.size());
}

// Breaks a text at spaces into at most `most` lines.
std::vector<std::string> wrapped(std::string text, std::size_t columns, std::size_t most) {
  text = escaped(text, text.size());
  std::vector<std::string> lines;
  while (lines.size() + 1 < most && text.size() > columns) {
    const auto space = text.rfind(' ', columns);
    if (space == text.npos || space == 0) break;
    lines.push_back(fitted(text.substr(0, space), columns));
    text.erase(0, space + 1);
  }
  lines.push_back(fitted(text, columns));
  return lines;
}

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string head(const json& run) {
  const auto& start = run["start"];
  const auto ranks = start["world_size"].get<std::int64_t>();
  return fmt::format("{}: {}, {} rank{}, {} ({})", run["name"].get<std::string>(),
                     text_of(start, "device"), ranks, ranks == 1 ? "" : "s",
                     text_of(start, "compute_dtype"), text_of(run["status"], "text"));
}

double planned_tokens(const json& run) {
  const auto planned = run.value("data", json::object()).value("planned_tokens", json());
  if (planned.is_number()) return planned;
  return setting(run, "ITERATIONS") * run["start"]["tokens_per_step"].get<double>();
}

// Returns the training time left: of the planned tokens at the present rate, or until the
// wall-clock limit if that is less.
double seconds_left(const json& run, double tokens, double ms, double rate) {
  double left = (planned_tokens(run) - tokens) / rate;
  const double cap = setting(run, "MAX_WALLCLOCK_SECONDS");
  if (cap > 0) left = std::min(left, cap - setting(run, "GPTQ_RESERVE_SECONDS") - ms / 1000);
  return left;
}

// Returns the mean over the last tenth of the rows.
double recent(const std::vector<double>& values) {
  const auto count =
      std::max<std::size_t>(values.size() / 10, std::min<std::size_t>(values.size(), 5));
  double sum = 0, numbers = 0;
  for (auto i = values.size() - count; i < values.size(); ++i) {
    if (std::isfinite(values[i])) sum += values[i], numbers += 1;
  }
  return sum / numbers;
}

std::string state(const json& run) {
  const double step = last_of(column(run, "train", "step"));
  const double ms = last_of(column(run, "train", "ms"));
  const double tokens = last_of(column(run, "train", "tokens"));
  const double rate = recent(column(run, "train", "tokens_per_s"));
  auto text = fmt::format("step {:.0f} of {:.0f}  {:.0f} tokens  {:.0f} tokens/s  trained {}", step,
                          setting(run, "ITERATIONS"), tokens, rate, clock_text(ms / 1000));
  if (text_of(run["status"], "kind") == "training" && std::isfinite(rate)) {
    text += "  left " + clock_text(std::max(seconds_left(run, tokens, ms, rate), 0.0));
  }
  return text;
}

// Returns a text about the stage that began last; empty in the first stage.
std::string stage(const json& run) {
  std::string text;
  for (const auto& mark : run.value("marks", json::array())) {
    if (mark["event"] == StageStarted::kEvent.name)
      text = fmt::format("  {} from step {}", text_of(mark, "title"),
                         mark["step"].get<std::int64_t>());
  }
  return text;
}

std::string losses(const json& run) {
  auto text = fmt::format("loss {:.4f} (mean of some 20 steps)",
                          last_of(column(run, "train", "smooth_loss")));
  const auto scores = column(run, "val", "val_loss"), steps = column(run, "val", "step");
  const auto best = std::ranges::min_element(scores, [](double a, double b) { return a < b; });
  if (best != scores.end()) {
    text += fmt::format("  val_loss {:.4f}, best {:.4f} at step {:.0f}", scores.back(), *best,
                        steps[static_cast<std::size_t>(best - scores.begin())]);
  }
  return text;
}

// Returns each phase's percentage of a step; empty without the timing breakdown.
std::string phases(const json& run) {
  std::string text;
  double all = 0;
  constexpr const char* kNames[] = {"data_wait", "forward",   "backward",
                                    "grad_clip", "optimizer", "other"};
  for (const auto* name : kNames) {
    const double ms = recent(column(run, "phases", name));
    if (std::isfinite(ms)) all += ms;
  }
  if (all <= 0) return text;
  for (const auto* name : kNames) {
    text += fmt::format("{}{} {:.1f}%", text.empty() ? "phases  " : "  ", name,
                        100 * recent(column(run, "phases", name)) / all);
  }
  return text;
}

std::string warnings(const json& run) {
  const auto& list = run["warning"];
  if (list.empty()) return "";
  const auto count = run["counts"].value("warning", std::int64_t{0});
  auto text = text_of(list.back(), "text");
  if (text.empty()) text = text_of(list.back(), "kind");
  return fmt::format("{} warning{}, the last: {}", count, count == 1 ? "" : "s", text);
}

}  // namespace

std::string terminal_view(const json& run, std::size_t columns, std::size_t rows) {
  std::vector<std::string> lines{fitted(head(run), columns)};
  const auto steps = column(run, "train", "step");
  if (steps.empty()) {
    lines.push_back(fitted("no step yet", columns));
  } else {
    lines.push_back(fitted(state(run) + stage(run), columns));
    lines.push_back(fitted(losses(run), columns));
    const auto height = std::min(rows > kOtherLines ? rows - kOtherLines : 0, kMaxChartRows);
    const auto width = columns > kLabel ? columns - kLabel : 0;
    auto chart = terminal_chart(steps, column(run, "train", "smooth_loss"), width, height);
    if (!chart.empty()) chart.push_back(axis(steps.front(), steps.back(), columns));
    for (auto& line : chart) lines.push_back(std::move(line));
    lines.push_back(fitted(phases(run), columns));
  }
  lines.push_back(fitted(warnings(run), columns));
  const auto why_it_stopped = text_of(run.value("exit", json::object()), "text");
  for (auto& line : wrapped(why_it_stopped, columns, kExitLines)) lines.push_back(std::move(line));
  std::erase(lines, "");
  lines.resize(std::min(lines.size(), std::max<std::size_t>(rows, 2) - 1));
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

}  // namespace tg
