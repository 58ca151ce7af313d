#pragma once
#include <exception>
#include <functional>
#include <optional>

#include "base/error.h"

namespace tg {

// Runs a program and returns 0. From the call on, an exception that nobody catches, on any thread,
// ends the process where it is thrown: with one line on standard error and the exit code of
// describe_error(). The stack is not unwound and no destructor runs, since those of a broken run
// may never return: one would join a thread that reads dead storage, or wait for ranks that are
// gone. Therefore no frame below this one may catch an exception only to pass it on, and files that
// must not stay are each a Leftover. (Of a thread that ends the process in another way,
// as a joinable std::thread's destructor does, the line says only that.)
int run_program(const std::function<void()>& program);

// What else a program knows of an exception that is no Error; nothing: describe_error() decides.
using Explanation = std::function<std::optional<Error>(const std::exception&)>;
void explain_errors_with(Explanation explanation);

// The line and exit code of an exception: an Error's own, else the explanation's, else `memory` for
// exhausted memory and for threads that cannot be started, else `internal`. Null: `internal`.
Error describe_error(const std::exception_ptr& exception);

}  // namespace tg
