#pragma once
#include <type_traits>

#include "config/role.h"
#include "config/types/limits.h"

namespace tg {

// A setting, or an option of one command, as its group declares it.
template <class T>
struct Setting {
  const char* name;  // of the member: matrix_lr
  T& value;          // const where the group is
  Limit limit;
  Role role;
  const char* help;
};

// Receives the lines of a group's `visit`, and calls f with each as a Setting.
template <class F>
class SettingLines {
 public:
  explicit SettingLines(F& f) : f_(f) {}

  template <class T>
  void operator()(const char* name, T& value, const Limit& limit, const Role& role,
                  const char* help) const {
    f_(Setting<T>{name, value, limit, role, help});
  }

 private:
  F& f_;
};

// Calls f with every Setting of `group` in the order of its declaration. A group is a struct with a
// static visit(self, line), such as DataConfig, Settings, or the options of a command.
template <class Group, class F>
void for_each_setting(Group&& group, F&& f) {
  std::remove_cvref_t<Group>::visit(group, SettingLines(f));
}

}  // namespace tg
