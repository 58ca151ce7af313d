// What a reader of metrics.jsonl takes and refuses, of every event's schema.

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/error.h"
#include "run_log/events.h"
#include "run_log/metrics_reader.h"
#include "run_log/metrics_sink.h"

namespace tg {
namespace {

using nlohmann::json;

// The event with every field that it may have, of no meaning.
template <EventType E>
json with_every_field(const E& event) {
  json object{{"event", E::kEvent.name}};
  event.visit([&]<class T>(const char* name, const T&, FieldRule, const char*) {
    const json of_type[] = {7, 1.5, "text", json::object({{"name", 7}})};
    object[name] = of_type[static_cast<std::size_t>(TypeOf<T>::value)];
  });
  return object;
}

bool is_read(const json& event) {
  const auto text = json::parse(event.dump());  // as from a file
  try {
    check_fields(text, "metrics.jsonl:1");
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_data);
    return false;
  }
}

TEST(EventFields, WhatIsWrittenIsRead) {
  for_each_event([]<EventType E>(const E& event) {
    EXPECT_TRUE(is_read(event_json(event))) << E::kEvent.name;
    EXPECT_TRUE(is_read(with_every_field(event))) << E::kEvent.name;
  });
  EXPECT_TRUE(is_read(event_json(
      StepEnded{.loss = std::numeric_limits<double>::infinity(), .token_offset = {}, .pass = {}})));
}

TEST(EventFields, OnlyRequiredFieldsMayNotBeMissing) {
  std::map<std::string, std::set<std::string>> required;
  for_each_event([&]<EventType E>(const E& event) {
    const auto whole = with_every_field(event);
    for (const auto& [name, value] : whole.items()) {
      auto without = whole;
      without.erase(name);
      if (name != "event" && !is_read(without)) required[E::kEvent.name].insert(name);
    }
  });
  const std::map<std::string, std::set<std::string>> expected = {
      {"start", {"tokens_per_step", "world_size"}},
      {"train", {"step", "train_loss", "train_time_ms", "lr_scale"}},
      {"timing", {"step", "micro_steps"}},
      {"val", {"step", "val_loss"}},
      {"resume", {"step"}},
      {"checkpoint", {"step"}},
      {"batches", {"step", "tokens_per_step", "seq_len"}},
      {"late_qat", {"step"}},
      {"stage_warmup", {"stage"}},
      {"stage", {"step", "stage"}},
      {"swa", {"step"}},
      {"skipped_step", {"step"}},
      {"stopping_early", {"step"}},
      {"warning", {"kind"}},
      {"final", {"name", "val_loss"}},
      {"artifact", {"total_bytes", "limit_bytes"}},
      {"exit", {"code"}}};
  EXPECT_EQ(required, expected);
}

TEST(EventFields, AFieldOfAnotherTypeIsRefused) {
  for_each_event([]<EventType E>(const E& event) {
    const auto whole = with_every_field(event);
    for (const auto& [name, value] : whole.items()) {
      if (name == "event") continue;
      auto wrong = whole;
      wrong[name] = json::array();
      EXPECT_FALSE(is_read(wrong)) << E::kEvent.name << ": " << name;
      wrong[name] = nullptr;
      EXPECT_EQ(is_read(wrong), value.is_number_float()) << E::kEvent.name << ": " << name;
    }
  });
}

TEST(EventFields, WhatOtherVersionsWritePasses) {
  EXPECT_TRUE(is_read({{"event", "of_a_later_version"}, {"step", "seven"}}));
  EXPECT_TRUE(is_read({{"event", "swa"}, {"step", 7}, {"of_a_later_version", json::array()}}));
  json start = {{"event", "start"}, {"tokens_per_step", 8}, {"world_size", 1}};
  start["flops_per_token"] = 1.5;
  EXPECT_TRUE(is_read(start));
  start["flops_per_token"] = "many";
  EXPECT_FALSE(is_read(start));
}

}  // namespace
}  // namespace tg
