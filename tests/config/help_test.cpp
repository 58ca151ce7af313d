#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "config/parse.h"
#include "config/script_names.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

// Environment names of the settings on a page, in its order.
std::vector<std::string> names_on(std::string_view page) {
  std::vector<std::string> names;
  std::istringstream lines(help_text(page));
  for (std::string line; std::getline(lines, line);) {
    const auto name = line.substr(line.rfind(' ') + 1);
    if (line.starts_with("  --") && std::isupper(name[0]) != 0 && name != "FILE" &&
        name != "[PAGE]")
      names.push_back(name);
  }
  std::erase_if(names, [](const auto& name) {
    return !std::ranges::all_of(
        name, [](char c) { return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_'; });
  });
  return names;
}

TEST(Help, EverySettingStandsOnOnePageWithItsDefaultAndRange) {
  std::map<std::string, int> pages;
  for (const auto& page : help_pages())
    for (const auto& name : names_on(page)) ++pages[name];
  for_each_setting(Settings(), [&](const auto& setting) {
    EXPECT_EQ(pages[env_name(setting.name)], 1) << setting.name;
  });
  const auto optimizer = help_text("optimizer");
  EXPECT_TRUE(optimizer.starts_with("Optimizer\n"));
  EXPECT_NE(optimizer.find("  --matrix-lr  MATRIX_LR\n"), std::string::npos);
  EXPECT_NE(
      optimizer.find("takes a number of at least 0; default 0.025; fixed when a run resumes\n"),
      std::string::npos);
  EXPECT_NE(help_text("machine").find("takes auto|cuda|cpu; default auto\n"), std::string::npos);
}

TEST(Help, FirstPageHasTheTwentyFiveSettingsThatPeopleSet) {
  EXPECT_EQ(names_on("").size(), 25u);
}

TEST(Help, PageOfAllHasEverySettingOnceAndAtMost150OfNoRecipesOwn) {
  const auto all = names_on("all");
  const std::set<std::string> found(all.begin(), all.end());
  EXPECT_EQ(found.size(), all.size());
  std::size_t of_one_recipe = 0;
  for (const auto* recipe : {"last_record", "speedrun_43", "speedrun_89"})
    of_one_recipe += names_on(recipe).size();
  EXPECT_LE(all.size() - of_one_recipe, 150u);
  for_each_setting(Settings(), [&](const auto& setting) {
    EXPECT_TRUE(found.contains(env_name(setting.name))) << setting.name;
  });
}

TEST(Help, PageOfAllNamesTheScriptsOwnNames) {
  const auto all = help_text("all");
  for (const auto& [member, setting, value] : script_switches)
    EXPECT_NE(all.find(env_name(member)), std::string::npos) << member;
  for (const auto& [member, reason] : ignored_names)
    EXPECT_NE(all.find(env_name(member)), std::string::npos) << member;
}

TEST(Help, LinesFitInEightyColumns) {
  auto pages = help_pages();
  pages.insert(pages.end(), {"", "all"});
  for (const auto& page : pages) {
    std::istringstream lines(help_text(page));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(Help, AnUnknownPageIsRefusedWithTheNamesOfAllPages) {
  EXPECT_EQ(
      failure_of([] { help_text("optimiser"); }),
      "64 --help optimiser: no such page; expected all, data, run, model, optimizer, "
      "averaging, ttt, overlap, machine, compatibility, last_record, speedrun_43, speedrun_89");
}

}  // namespace
}  // namespace tg
