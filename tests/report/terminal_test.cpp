#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/terminal_view.h"

namespace tg {
namespace {

using nlohmann::json;

TEST(TerminalChart, DrawsFromTheUpperLeftToTheLowerRight) {
  // 4 x 4 dots, one on each diagonal place, joined by vertical strokes.
  const auto lines = terminal_chart({0, 1, 2, 3}, {3, 2, 1, 0}, 2, 1);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "       3 │⠙⢦");
}

TEST(TerminalChart, LabelsItsLeastAndGreatestValue) {
  const auto lines = terminal_chart({1, 2, 3}, {6.5, 4, 2.25}, 10, 3);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("     6.5 │")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("         │")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("    2.25 │")) << lines[2];
}

TEST(TerminalChart, IsNotFlattenedByAFirstLoss) {
  std::vector<double> x, y;
  for (int i = 0; i < 200; ++i) x.push_back(i), y.push_back(i == 0 ? 1e6 : 5 - i * 0.01);
  EXPECT_TRUE(terminal_chart(x, y, 20, 4)[0].starts_with("    4.99 │"));
}

TEST(TerminalChart, JoinsValuesThatAreFarApart) {
  EXPECT_EQ(terminal_chart({0, 10}, {1, 1}, 5, 1)[0], "       1 │⠤⠤⠤⠤⠤");
}

TEST(TerminalChart, DrawsNothingOfNothing) {
  EXPECT_TRUE(terminal_chart({}, {}, 10, 3).empty());
  EXPECT_TRUE(terminal_chart({1, 2}, {std::nan(""), INFINITY}, 10, 3).empty());
  EXPECT_EQ(terminal_chart({1}, {2}, 10, 3).size(), 3u);
}

json table(std::initializer_list<std::pair<const char*, std::vector<double>>> columns) {
  json found = {{"rows", columns.begin()->second.size()}, {"columns", json::object()}};
  for (const auto& [name, values] : columns) found["columns"][name] = values;
  return found;
}

json run_of(std::vector<double> steps) {
  std::vector<double> ms, tokens, rates(steps.size(), 1000), losses;
  for (const double step : steps) {
    ms.push_back(1000 * step);
    tokens.push_back(1000 * step);
    losses.push_back(6 - step / 100);
  }
  return {
      {"name", "lr\x1b[31m1337"},
      {"settings", {{"ITERATIONS", 100}, {"MAX_WALLCLOCK_SECONDS", 0}}},
      {"start",
       {{"world_size", 2},
        {"tokens_per_step", 1000},
        {"device", "GPU"},
        {"compute_dtype", "Half"}}},
      {"train", table({{"step", steps},
                       {"ms", ms},
                       {"tokens", tokens},
                       {"tokens_per_s", rates},
                       {"smooth_loss", losses}})},
      {"phases", table({{"data_wait", {0}},
                        {"forward", {30}},
                        {"backward", {60}},
                        {"grad_clip", {1}},
                        {"optimizer", {9}},
                        {"other", {0}}})},
      {"val", table({{"step", {0, 10}}, {"val_loss", {6.5, 5.75}}})},
      {"status", {{"kind", "training"}, {"text", "training"}}},
      {"warning", json::array({{{"kind", "settings"}, {"text", "first"}}, {{"kind", "stall"}}})},
      {"counts", {{"warning", 7}}}};
}

TEST(TerminalView, SaysHowFarTheRunIsAndWhatIsLeft) {
  const auto text = terminal_view(run_of({1, 5, 10, 40}), 120, 30);
  for (const auto* part :
       {"2 ranks", "Half (training)", "step 40 of 100", "1000 tokens/s", "trained 0:00:40",
        "left 0:01:00", "loss 5.6000", "val_loss 5.7500, best 5.7500 at step 10", "forward 30.0%",
        "backward 60.0%", "7 warnings, the last: stall"}) {
    EXPECT_NE(text.find(part), text.npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), text.npos) << "a terminal would obey it";
}

TEST(TerminalView, SaysFromWhichStepOnThereIsTheStage) {
  auto run = run_of({10, 20, 30});
  EXPECT_EQ(terminal_view(run, 100, 20).find("recurrence"), std::string::npos);
  run["marks"] = {{{"event", "checkpoint"}, {"step", 10}},
                  {{"event", "stage"}, {"stage", 1}, {"title", "in recurrence"}, {"step", 20}}};
  EXPECT_NE(terminal_view(run, 120, 20).find("in recurrence from step 20\n"), std::string::npos);
}

TEST(TerminalView, PlansByTheSettingsWhereTheEventHasNoNumber) {
  auto run = run_of({1, 5, 10, 40});
  const auto text = terminal_view(run, 120, 30);
  run["data"] = {{"event", "data"}, {"planned_tokens", nullptr}};
  EXPECT_EQ(terminal_view(run, 120, 30), text);
}

TEST(TerminalView, OfARunThatDoesNotTrainPromisesNoTime) {
  auto run = run_of({1, 5, 10, 40});
  run["status"] = {{"kind", "stopped"}, {"text", "stopped at step 40, exit 75"}};
  run["exit"] = {{"code", 75}, {"text", "stopped by SIGTERM\x1b[2J, state saved"}};
  const auto text = terminal_view(run, 120, 30);
  EXPECT_EQ(text.find("left "), text.npos) << text;
  EXPECT_NE(text.find("(stopped at step 40, exit 75)"), text.npos) << text;
  EXPECT_NE(text.find("\nstopped by SIGTERM\\x1b[2J, state saved\n"), text.npos) << text;
  const auto narrow = terminal_view(run, 30, 30);
  EXPECT_NE(narrow.find("\nstopped by SIGTERM\\x1b[2J,\nstate saved\n"), text.npos) << narrow;
  for (const auto* kind : {"silent", "scoring", "ended"}) {
    run["status"]["kind"] = kind;
    EXPECT_EQ(terminal_view(run, 120, 30).find("left "), text.npos) << kind;
  }
}

TEST(TerminalView, KeepsToTheTerminalsSize) {
  auto run = run_of({1, 5, 10, 40});
  std::string why = "why";
  for (int word = 0; word < 99; ++word) why += " why";
  run["exit"] = {{"code", 70}, {"text", why}};
  auto resumed = run_of({100'000, 150'000, 1'000'000});
  resumed["train"]["columns"]["smooth_loss"] = {-1234567, -1234568, -1234569};
  for (const auto& shown : {run, resumed, run_of({})}) {
    for (const std::size_t columns : {1, 2, 9, 11, 20, 26, 33, 40, 80}) {
      for (const std::size_t rows : {1, 5, 10, 12, 24}) {
        std::istringstream lines(terminal_view(shown, columns, rows));
        std::size_t count = 0;
        for (std::string line; std::getline(lines, line); ++count) {
          // The characters of UTF-8.
          const auto width = std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
          EXPECT_LE(width, static_cast<std::ptrdiff_t>(columns)) << line;
        }
        // The cursor stands below.
        EXPECT_LT(count, std::max<std::size_t>(rows, 2)) << columns;
      }
    }
  }
}

TEST(TerminalView, OfARunWithoutAStepSaysSo) {
  auto run = run_of({});
  run["phases"] = table({{"data_wait", {}}});
  EXPECT_NE(terminal_view(run, 80, 24).find("no step yet"), std::string::npos);
}

}  // namespace
}  // namespace tg
