#pragma once
#include <exception>
#include <functional>
#include <optional>

#include "base/error.h"

namespace tg {

// Runs a program and returns 0. From the call on, an uncaught exception on any thread ends the
// process where it is thrown, with one line on standard error and the exit code of
// describe_error(). The stack is not unwound and no destructor runs, since destructors of a broken
// run may never return: one joins a thread that reads from dead storage, another waits for ranks
// that no longer exist. Therefore no frame below this one may catch an exception only to rethrow
// it, and files that must be removed are each a RemoveOnExit. (If a thread ends the process without
// an exception, as a joinable std::thread's destructor does, the line says only that.)
int run_program(const std::function<void()>& program);

// Whether a thread ends the program, which may take seconds.
bool is_ending();

// For an end of the program that this thread decides on and that other threads may only get in the
// way of: from now on their errors are waited out, not reported. Then end_process() ends it, with
// the line and exit code of `error`; `last` runs in between.
void silence_other_threads();
[[noreturn]] void end_process(const Error& error, const std::function<void()>& last);
// The same without a line.
[[noreturn]] void end_process(ExitCode code);

// Translates an exception that is not an Error, such as one of LibTorch; nothing: describe_error()
// decides.
using Explanation = std::function<std::optional<Error>(const std::exception&)>;
void explain_errors_with(Explanation explanation);

// Message and exit code of an exception: an Error's own, else the explanation's, else `memory` for
// exhausted memory and threads that cannot be started, else `internal`. Null: `internal`.
Error describe_error(const std::exception_ptr& exception);

}  // namespace tg
