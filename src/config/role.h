#pragma once
// Metadata of a setting for code that treats all settings alike: resuming, comparing ranks, using a
// model after its run, warnings, --help and shell completion.
#include <type_traits>

#include "config/types/choices.h"

namespace tg {

struct Settings;
using Condition = bool (*)(const Settings&);

// Whom a setting's value concerns.
enum class Scope {
  model,  // the run's model, also in later commands that read its config.json
  run,    // this run and its machine alone
  rank,   // this run, and its ranks may differ
};

// The warning about a setting without effect: "NAME=value " and `text`.
struct Ineffective {
  Condition when = nullptr;  // null: never
  const char* text = nullptr;
  bool default_too = false;  // else only if the setting was given
};

class Role {
  // Defined before its uses: Clang 14 needs it for a constant of this header.
  template <class T>
  constexpr Role with(T Role::*member, std::type_identity_t<T> value) const {
    Role role = *this;
    role.*member = value;
    return role;
  }

 public:
  Condition is_fixed;  // whether a resumed run must have the value of the checkpoint's run
  Scope scope = Scope::model;
  bool is_path = false;
  bool is_compatibility = false;  // accepted as the reference implementation accepts it
  bool is_common = false;         // on the first page of --help
  // The recipe whose script brought this setting; auto: several had it from the beginning.
  RecipeChoice recipe = RecipeChoice::automatic;
  Ineffective ineffective = {};

  // No default: every setting says whether it is fixed on resume.
  constexpr explicit Role(Condition fixed) : is_fixed(fixed) {}

  constexpr Role of_run() const { return with(&Role::scope, Scope::run); }
  constexpr Role of_rank() const { return with(&Role::scope, Scope::rank); }
  constexpr Role path() const { return with(&Role::is_path, true); }
  constexpr Role common() const { return with(&Role::is_common, true); }
  constexpr Role of_recipe(RecipeChoice script) const { return with(&Role::recipe, script); }
  constexpr Role compatibility() const { return with(&Role::is_compatibility, true); }
  // Warns where `when` holds and the setting was given.
  constexpr Role ineffective_if(Condition when, const char* text) const {
    return with(&Role::ineffective, {.when = when, .text = text});
  }
  // Warns where `when` holds, also of the default.
  constexpr Role warned_if(Condition when, const char* text) const {
    return with(&Role::ineffective, {.when = when, .text = text, .default_too = true});
  }
};

namespace role {

constexpr bool always(const Settings&) {
  return true;
}
constexpr bool never(const Settings&) {
  return false;
}

inline constexpr Role fixed(always);
// Fixed only where it has an effect.
constexpr Role fixed_if(Condition has_effect) {
  return Role(has_effect);
}
inline constexpr Role free(never);
// A command's own flag: no run has it.
inline constexpr Role option = free.of_rank();

}  // namespace role
}  // namespace tg
