#pragma once
#include <functional>

namespace tg {

// Runs a program. What it throws becomes one line on standard error and the exit code: an Error's
// own, for anything else `internal`.
int exit_code_of(const std::function<void()>& program);

}  // namespace tg
