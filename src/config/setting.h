#pragma once
// A setting with its metadata, for code that treats all settings alike: resuming, comparing ranks,
// using a model after its run, warnings, --help and shell completion.
#include <type_traits>

#include "config/types/choices.h"
#include "config/types/limits.h"

namespace tg {

// Whom a setting's value concerns.
enum class Scope {
  model,  // the run's model, also in later commands that read its config.json
  run,    // this run and its machine alone
  rank,   // this run, and its ranks may differ
};

// The warning about a setting without effect: "NAME=value " and `text`.
struct Ineffective {
  bool is_so = false;
  const char* text = nullptr;  // null: never
  bool default_too = false;    // else only if the setting was given
};

// `is_fixed` and `ineffective.is_so` may depend on settings: they hold for those that are visited.
class Role {
  // Defined before its uses: Clang 14 needs it for a constant of this header.
  template <class T>
  constexpr Role with(T Role::*member, std::type_identity_t<T> value) const {
    Role role = *this;
    role.*member = value;
    return role;
  }

 public:
  bool is_fixed;            // whether a resumed run must have the checkpoint's value
  bool is_fixed_by_effect;  // `is_fixed` says whether the setting has an effect
  Scope scope = Scope::model;
  bool is_path = false;
  bool is_compatibility = false;  // accepted as the reference implementation accepts it
  bool is_common = false;         // on the first page of --help
  // The recipe whose script brought this setting; auto: several had it from the beginning.
  RecipeChoice recipe = RecipeChoice::automatic;
  Ineffective ineffective = {};

  // No default: every setting says whether it is fixed on resume.
  constexpr explicit Role(bool fixed, bool by_effect = false)
      : is_fixed(fixed), is_fixed_by_effect(by_effect) {}

  constexpr Role of_run() const { return with(&Role::scope, Scope::run); }
  constexpr Role of_rank() const { return with(&Role::scope, Scope::rank); }
  constexpr Role path() const { return with(&Role::is_path, true); }
  constexpr Role common() const { return with(&Role::is_common, true); }
  constexpr Role of_recipe(RecipeChoice script) const { return with(&Role::recipe, script); }
  constexpr Role compatibility() const { return with(&Role::is_compatibility, true); }
  // Warns if the setting was given.
  constexpr Role ineffective_if(bool is_so, const char* text) const {
    return with(&Role::ineffective, {.is_so = is_so, .text = text});
  }
  // Warns of the default, too.
  constexpr Role warned_if(bool is_so, const char* text) const {
    return with(&Role::ineffective, {.is_so = is_so, .text = text, .default_too = true});
  }
};

namespace role {

inline constexpr Role fixed(true);
// Fixed only where it has an effect.
constexpr Role fixed_if(bool has_effect) {
  return Role(has_effect, /*by_effect=*/true);
}
inline constexpr Role free(false);
// A command's own flag: no run has it.
inline constexpr Role option = free.of_rank();

}  // namespace role

// A setting, or an option of one command, as its group declares it.
template <class T>
struct Setting {
  const char* name;  // of the member: matrix_lr
  T& value;          // const where the group is
  Limit limit;
  Role role;
  const char* help;
};

// Returns the function that takes the lines of a group's `visit`, and calls f with each as a
// Setting.
auto setting_line(auto& f) {
  return [&f]<class T>(const char* name, T& value, const Limit& limit, const Role& role,
                       const char* help) {
    f(Setting<T>{name, value, limit, role, help});
  };
}

// Calls f with every Setting of `group` in the order of its declaration. A group is a struct with a
// static visit(self, line), such as Settings or the options of a command, or a group of Settings,
// such as DataConfig, with a static visit(self, line, all). `all`: the Settings that `group` is of.
template <class Group, class F>
void for_each_setting(Group&& group, F&& f, const auto&... all) {
  std::remove_cvref_t<Group>::visit(group, setting_line(f), all...);
}

}  // namespace tg
