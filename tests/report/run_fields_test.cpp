// The report uses fields that events have.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "report/run_follower.h"
#include "run_log/events.h"
#include "run_log/metrics_sink.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

using nlohmann::json;

TEST(RunFields, EveryColumnIsFilled) {
  const test::TempDir folder;
  const RunPath path = {folder / "metrics.jsonl", folder / "config.json"};
  test::write_file(path.config, R"({"settings":{},"origins":{},"versions":"1","device":"CPU"})");
  RunStarted start;
  start.tokens_per_step = 1024;
  std::ofstream(path.metrics) << event_json(start) << '\n'
                              << event_json(StepTimed{.step = 1,
                                                      .micro_steps = 2,
                                                      .forward_ms = 1,
                                                      .backward_ms = 2,
                                                      .grad_clip_ms = 3,
                                                      .optimizer_ms = 4,
                                                      .data_wait_ms = 5,
                                                      .comm_ms = 6,
                                                      .step_ms = 100})
                              << '\n'
                              << event_json(StepEnded{.step = 1,
                                                      .loss = 4,
                                                      .lr_scale = 1,
                                                      .grad_norm = 2,
                                                      .elapsed_ms = 10,
                                                      .tokens = 1024,
                                                      .flops_per_token = 1e6,
                                                      .token_offset = {},
                                                      .pass = {}})
                              << '\n'
                              << event_json(Validated{1, 3, 1.5, 10, 7}) << '\n'
                              << event_json(RunEnded{.exit_code = 75, .step = 1, .error = "why"})
                              << '\n';
  const auto run = read_run(path);
  for (const auto* table : {"train", "phases", "val"}) {
    for (const auto& [name, values] : run[table]["columns"].items()) {
      ASSERT_EQ(values.size(), 1u) << table << ": " << name;
      EXPECT_TRUE(values[0].is_number() && values[0] > 0) << table << ": " << name;
    }
  }
  EXPECT_EQ(run["status"]["text"], "stopped at step 1, exit 75");
  EXPECT_EQ(run["exit"]["text"], "why");
}

using Fields = std::map<std::string, std::set<std::string>>;  // by event

Fields schema() {
  Fields fields;
  for_each_event([&]<EventType E>(const E& event) {
    event.visit([&](const char* name, const auto&, FieldRule, const char*) {
      fields[E::kEvent.name].insert(name);
    });
  });
  return fields;
}

// What the page's script takes of its events: {variable: fields}. chart.js has marks of its own.
Fields used_by_page() {
  static const std::regex use(
      R"((^|[^.\w])(run\.(?:start|data|first_step|closing|memory|exit)|warning|mark|score|artifact)\??\.(\w+))");
  Fields used;
  for (const auto& entry : std::filesystem::directory_iterator(SOURCE_DIR "/src/report/page")) {
    const auto& path = entry.path();
    if (path.extension() != ".js" || path.filename() == "chart.js") continue;
    const auto text = test::read_file(path);
    for (std::sregex_iterator match(text.begin(), text.end(), use), end; match != end; ++match)
      used[(*match)[2]].insert((*match)[3]);
  }
  return used;
}

TEST(RunFields, ThePageTakesFieldsThatEventsHave) {
  auto fields = schema();
  const auto of_marks = [&] {
    std::set<std::string> all = {"event", "ms", "tokens"};
    for (const auto* name : {"checkpoint", "resume", "batches", "late_qat", "stage", "swa",
                             "skipped_step", "stopping_early"})
      all.insert(fields[name].begin(), fields[name].end());
    return all;
  };
  const Fields known = {{"run.start", fields["start"]},
                        {"run.data", fields["data"]},
                        {"run.first_step", fields["first_step"]},
                        {"run.closing", fields["closing"]},
                        {"run.memory", fields["memory"]},
                        {"run.exit", fields["exit"]},
                        {"warning", fields["warning"]},
                        {"mark", of_marks()},
                        {"score", fields["final"]},
                        {"artifact", fields["artifact"]}};
  const auto used = used_by_page();
  for (const auto& [variable, names] : known) {
    ASSERT_TRUE(used.contains(variable)) << "the page does not use " << variable;
    for (const auto& name : used.at(variable))
      EXPECT_TRUE(names.contains(name)) << variable << "." << name;
  }
}

}  // namespace
}  // namespace tg
