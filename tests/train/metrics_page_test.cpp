// docs/metrics.md names every event and field that MetricsSink writes, and no others.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/data/files.h"
#include "train/metrics_sink.h"

namespace tg {
namespace {

using Fields = std::map<std::string, std::set<std::string>>;  // by event

template <class Event>
Event with(void (*set)(Event&)) {
  Event event;
  set(event);
  return event;
}

// Every event with all that it may have. An event with two forms is here twice.
std::vector<RunEvent> full_events() {
  return {RanksJoined{},
          with<RunStarted>([](auto& e) {
            e.train_tokens = 1, e.schedule_iterations = 1, e.fp8 = "mlp", e.peak_flops = 1;
            e.tokenizer = TokenizerFacts{.format = "gpt2", .normalisation = "nfkc"};
          }),
          SizePadded{},
          with<MicroBatchCut>([](auto& e) { e.usable = 1; }),
          WarmUpStepEnded{},
          Resumed{},
          FirstStepEnded{},
          with<StepEnded>([](auto& e) { e.loss_scale = 1, e.token_offset = 1, e.pass = 1; }),
          StepTimed{},
          StepSkipped{},
          with<StepSkipped>([](auto& e) { e.loss_scale = 1; }),
          CheckpointSaved{},
          CheckpointFailed{},
          BatchesChanged{},
          LateQatStarted{},
          SwaStarted{},
          SettingWarning{},
          TokensStalled{},
          TokensRepeated{},
          with<Validated>([](auto& e) { e.score.bpb = 1; }),
          ValidationProgress{},
          ValidationSummary{},
          with<TraceWritten>([](auto& e) { e.error = "why"; }),
          StoppedEarly{},
          LoopEnded{},
          MemoryMeasured{},
          AverageApplied{},
          with<FinalScored>([](auto& e) { e.score.bpb = 1, e.stride = 64; }),
          with<ModelWritten>([](auto& e) { e.excluded_parameters = 1; }),
          ArtifactWritten{},
          with<RunEnded>([](auto& e) { e.step = 1, e.error = "why"; })};
}

Fields written_fields() {
  const test::TempDir dir;
  const auto path = dir / "metrics.jsonl";
  std::set<std::size_t> kinds;
  {
    MetricsSink sink(path);
    for (const auto& event : full_events()) {
      std::visit(sink, event);
      kinds.insert(event.index());
    }
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<RunEvent>) << "full_events() lacks one";
  Fields fields;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line);
    for (const auto& [name, value] : object.items()) {
      if (name != "event") fields[object.at("event")].insert(name);
    }
  }
  return fields;
}

// What is in code font.
std::set<std::string> code_words(const std::string& text) {
  static const std::regex code("`(\\w+)`");
  std::set<std::string> words;
  for (std::sregex_iterator match(text.begin(), text.end(), code), end; match != end; ++match) {
    words.insert((*match)[1]);
  }
  return words;
}

// Of the table's rows: | `event` | when | fields |
Fields documented_fields() {
  Fields fields;
  std::ifstream page(SOURCE_DIR "/docs/metrics.md");
  static const std::regex row(R"(\| `(\w+)` \| [^|]*\| ([^|]*) \|)");
  std::smatch match;
  for (std::string line; std::getline(page, line);) {
    if (std::regex_match(line, match, row)) fields[match[1]] = code_words(match[2]);
  }
  fields.erase("event");  // the table's head
  std::ifstream timing(SOURCE_DIR "/docs/timing.md");
  for (std::string line; std::getline(timing, line);) {
    if (!line.starts_with("| `")) continue;
    const auto names = code_words(line.substr(0, line.find('|', 1)));
    fields["timing"].insert(names.begin(), names.end());
  }
  return fields;
}

TEST(MetricsPage, NamesTheEventsAndFieldsThatAreWritten) {
  const auto written = written_fields(), documented = documented_fields();
  for (const auto& [event, fields] : documented) {
    EXPECT_TRUE(written.contains(event)) << event << " is documented, and is not written";
  }
  for (const auto& [event, fields] : written) {
    ASSERT_TRUE(documented.contains(event)) << event << " is not documented";
    EXPECT_EQ(documented.at(event), fields) << event;
  }
}

}  // namespace
}  // namespace tg
