// docs/metrics.md has the events' schema.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "run_log/events.h"

namespace tg {
namespace {

constexpr const char* kTableHead = "| event, and its fields | type | |\n|---|---|---|\n";

template <class T>
std::string type_text(const T& value, FieldRule rule) {
  constexpr const char* types[] = {"count", "number", "text", "counts by name"};
  std::string text = types[static_cast<std::size_t>(TypeOf<T>::value)];
  if (rule.unit != Unit::none) text += fmt::format(" ({})", unit_text(rule.unit));
  if (rule.required) text += ", required";
  return text + (requires { value.has_value(); } ? ", optional" : "");
}

std::string table_of_schema() {
  std::string table = kTableHead;
  for_each_event([&]<EventType E>(const E& event) {
    table += fmt::format("| **`{}`** | | **{}** |\n", E::kEvent.name, E::kEvent.when);
    event.visit([&](const char* name, const auto& value, FieldRule rule, const char* doc) {
      table += fmt::format("| `{}` | {} | {} |\n", name, type_text(value, rule), doc);
    });
  });
  return table;
}

std::string table_of_page() {
  std::ifstream file(SOURCE_DIR "/docs/metrics.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const auto begin = page.find(kTableHead);
  return begin == page.npos ? "" : page.substr(begin, page.find("\n\n", begin) + 1 - begin);
}

TEST(MetricsPage, HasTheTableOfTheEventsSchema) {
  EXPECT_EQ(table_of_page(), table_of_schema());
}

TEST(TimingPage, ExplainsTheTimesOfTheEventTiming) {
  std::set<std::string> written, explained;
  StepTimed{}.visit([&](const char* name, const auto&, FieldRule rule, const char*) {
    if (rule.unit == Unit::ms) written.insert(name);
  });
  std::ifstream page(SOURCE_DIR "/docs/timing.md");
  static const std::regex field("`(\\w+)`");
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    const auto names = line.substr(0, line.find('|', 1));
    for (std::sregex_iterator match(names.begin(), names.end(), field), end; match != end; ++match)
      explained.insert((*match)[1]);
  }
  EXPECT_EQ(explained, written);
}

TEST(EventSchema, AFieldsNameSaysItsUnit) {
  for_each_event([]<EventType E>(const E& event) {
    event.visit([](std::string name, const auto&, FieldRule rule, const char*) {
      const bool is_ms = name.ends_with("_ms") || name.starts_with("ms_");
      EXPECT_EQ(is_ms, rule.unit == Unit::ms) << E::kEvent.name << ": " << name;
      EXPECT_EQ(name.ends_with("bytes"), rule.unit == Unit::bytes)
          << E::kEvent.name << ": " << name;
    });
  });
}

struct WithoutSchema {};
struct WithoutFields {
  static constexpr EventName kEvent{"nothing", "never"};
};
static_assert(EventType<SwaStarted> && !EventType<WithoutSchema> && !EventType<WithoutFields>);

}  // namespace
}  // namespace tg
