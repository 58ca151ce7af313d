#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/parse.h"
#include "config/script_names.h"
#include "config/types/text.h"

namespace tg {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::string_view kAll = "all", kCompatibility = "compatibility";

constexpr const char* head =
    "train_gpt train: trains a GPT from token shards, on a CPU or on GPUs.\n"
    "\n"
    "  train_gpt [train] [--config FILE]... [--SETTING VALUE]...\n"
    "\n"
    "A setting comes from its flag, else from the environment, else from a --config\n"
    "file of NAME=value lines (configs/; later files win), else from its default. A\n"
    "switch without a value means 1.\n"
    "\n"
    "  --config FILE   read settings from FILE; may be repeated\n"
    "  --help [PAGE]   this text, or a page of settings\n"
    "  --version       versions of this program and of its libraries\n";

// Breaks `text` into lines of at most kColumns.
std::string wrapped(std::string text, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string lines;
  while (text.size() > kColumns - indent) {
    const auto space = text.rfind(' ', kColumns - indent);
    // A list without spaces is broken behind a comma.
    const auto end =
        space == std::string::npos ? text.rfind(',', kColumns - indent - 1) + 1 : space;
    if (end == 0) break;
    lines += margin + text.substr(0, end) + "\n";
    text.erase(0, text[end] == ' ' ? end + 1 : end);
  }
  return lines + margin + text + "\n";
}

std::string text_of(const Entry& entry, bool is_setting) {
  const auto env = is_setting ? "  " + env_name(entry.member) : "";
  return fmt::format("  --{}{}\n", flag_name(entry.member), env) + wrapped(entry.help, 6) +
         wrapped(fmt::format("takes {}; default {}{}", entry.expected,
                             entry.value.empty() ? "empty" : entry.value,
                             is_setting && (entry.role.is_fixed || entry.role.is_fixed_by_effect)
                                 ? "; fixed when a run resumes"
                                 : ""),
                 6);
}

// Index of the recipe whose page it is among RECIPE's choices; −1: another page.
std::ptrdiff_t recipe_of_page(std::string_view page) {
  constexpr auto recipes = Choices::of(RecipeChoice());
  const auto found = std::ranges::find(recipes, page);
  return found == recipes.end() ? -1 : found - recipes.begin();
}

// Returns the page of a setting: the page of its group, or of the recipe that brought it.
std::string_view page_of(const Entry& entry, const char* group_page) {
  if (entry.role.is_compatibility) return kCompatibility;
  return entry.role.recipe == RecipeChoice::automatic ? group_page : choice_name(entry.role.recipe);
}

// Calls f(page, title, entry) with every setting.
void for_each_entry(auto&& f) {
  Settings defaults;
  Settings::visit_groups(defaults, [&](const char* group_page, const char* title, auto& group) {
    for (const Entry& entry : entries_of(group, defaults))
      f(page_of(entry, group_page), title, entry);
  });
}

std::string script_names_text() {
  std::string text = "\nSwitches of the reference scripts, and the value that 1 selects\n";
  std::map<std::string, bool> values;
  for (const Entry& entry : script_name_entries(values))
    text +=
        fmt::format("  --{}  {}\n      {}\n      takes {}; default 0\n", flag_name(entry.member),
                    env_name(entry.member), entry.help, entry.expected);
  return text;
}

std::string settings_text(std::string_view page) {
  std::string text, heading_before;
  for_each_entry([&](std::string_view own_page, const std::string& title, const Entry& entry) {
    if (page.empty() ? !entry.role.is_common : page != own_page) return;
    auto heading = own_page == kCompatibility ? "Compatibility with the reference scripts" : title;
    if (!page.empty() && recipe_of_page(own_page) >= 0)
      heading = fmt::format("{}: {}", own_page, heading);
    if (heading != heading_before) text += "\n" + heading + "\n";
    heading_before = heading;
    text += text_of(entry, true);
  });
  return text;
}

// Lists the pages.
std::string pages_text() {
  std::string text =
      "\nMore settings: train_gpt --help PAGE\n  all             every setting, those of the "
      "later recipes last\n";
  for (const auto& page : help_pages()) {
    std::size_t count = 0;
    for_each_entry([&](std::string_view own_page, const std::string&, const Entry&) {
      count += own_page == page ? 1 : 0;
    });
    text += fmt::format("  {:14}  {} settings{}\n", page, count,
                        recipe_of_page(page) >= 0 ? " that came with this recipe" : "");
  }
  return text;
}

}  // namespace

std::vector<std::string> help_pages() {
  std::vector<std::string> pages;
  for_each_entry([&](std::string_view page, const std::string&, const Entry&) {
    if (std::ranges::find(pages, page) == pages.end()) pages.emplace_back(page);
  });
  std::stable_sort(pages.begin(), pages.end(), [](const auto& a, const auto& b) {
    return recipe_of_page(a) < recipe_of_page(b);
  });
  return pages;
}

std::string help_text(std::string_view page) {
  const auto pages = help_pages();
  REQUIRE(page.empty() || page == kAll || std::ranges::find(pages, page) != pages.end(),
          ExitCode::usage, "--help {}: no such page; expected all, {}", page.substr(0, 200),
          fmt::join(pages, ", "));
  if (page.empty()) return head + settings_text(page) + pages_text();
  if (page == kAll) {
    std::string text = head;
    for (const auto& each : pages) text += settings_text(each);
    return text + script_names_text() + pages_text();
  }
  return (settings_text(page) + (page == kCompatibility ? script_names_text() : "")).substr(1);
}

std::string options_text(const std::vector<Entry>& options) {
  std::string text;
  for (const Entry& entry : options) text += text_of(entry, false);
  return text;
}

}  // namespace tg
