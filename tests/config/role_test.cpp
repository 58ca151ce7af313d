#include "config/role.h"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <type_traits>

#include "config/settings.h"
#include "config/types/text.h"

namespace tg {
namespace {

using Names = std::set<std::string>;

// A group's line compiles with a role, and not without one.
struct Ignore {
  template <class T>
  void operator()(const Setting<T>&) const {}
};
template <class... Arguments>
constexpr bool compiles =
    std::is_invocable_v<SettingLines<Ignore>, const char*, double&, Limit, Arguments...>;
static_assert(compiles<Role, const char*>);
static_assert(!compiles<const char*>);
static_assert(!std::is_default_constructible_v<Role>);
static_assert(!std::is_convertible_v<const char*, Role>);

// The names in the last column of each row `| **role** | ... | NAME, NAME (...) |` of
// docs/settings.md, by role.
std::map<std::string, Names> documented_roles() {
  std::map<std::string, Names> roles;
  std::ifstream file(SOURCE_DIR "/docs/settings.md");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| **")) continue;
    auto& names = roles[line.substr(4, line.find("**", 4) - 4)];
    std::string name;
    line.erase(line.size() - 1);  // the closing |
    for (const char c : line.substr(line.rfind('|'))) {
      if (std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_') {
        name += c;
      } else {
        if (name.size() > 1) names.insert(name);
        name.clear();
      }
    }
  }
  return roles;
}

Names names_where(const std::function<bool(const Role&)>& holds) {
  Names names;
  for_each_setting(Settings(), [&](const auto& setting) {
    if (holds(setting.role)) names.insert(env_name(setting.name));
  });
  return names;
}

bool is_free(const Role& role) {
  return role.is_frozen == role::never;
}
bool is_frozen_sometimes(const Role& role) {
  return role.is_frozen != role::always && !is_free(role);
}

TEST(Roles, AreTheDocumentedOnes) {
  const std::map<std::string, Names> declared = {
      {"free", names_where(is_free)},
      {"frozen with an effect", names_where(is_frozen_sometimes)},
      {"of a run", names_where([](const Role& r) { return r.scope == Scope::run; })},
      {"of a rank", names_where([](const Role& r) { return r.scope == Scope::rank; })},
      {"path", names_where([](const Role& r) { return r.is_path; })},
      {"compatibility", names_where([](const Role& r) { return r.is_compatibility; })},
      {"warned about", names_where([](const Role& r) { return r.ineffective.when != nullptr; })},
  };
  EXPECT_EQ(documented_roles(), declared);
}

}  // namespace
}  // namespace tg
