#pragma once
#include <exception>
#include <functional>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace tg {

// Runs a program and returns 0. From the call on, an uncaught exception on any thread ends the
// process where it is thrown, with one line on standard error and the exit code of
// describe_error(). The stack is not unwound and no destructor runs, since the destructors of a
// failed run may never return: one joins a thread that reads from dead storage, another waits for
// ranks that no longer exist. Therefore no caller below run_program() may catch an exception only
// to rethrow it, and each file that must be removed is a RemoveOnExit. (If a thread ends the
// process without an exception, as the destructor of a joinable std::thread does, the line says
// only that.)
int run_program(const std::function<void()>& program);

// Returns whether a thread is ending the process, which may take seconds.
bool is_ending();

// For an exit that this thread decides on, while other threads may fail because of it: from this
// call on, threads that fail wait instead of reporting. end_process() then ends the process, with
// the line and exit code of `error`; it runs `last` after the line is printed.
void silence_other_threads();
[[noreturn]] void end_process(const Error& error, const std::function<void()>& last);
// Exits without a line.
[[noreturn]] void end_process(ExitCode code);

// Translates an exception that is not an Error, such as one of LibTorch's; nullopt leaves it to
// describe_error().
using Explanation = std::function<std::optional<Error>(const std::exception&)>;
void explain_errors_with(Explanation explanation);

// Returns message and exit code of an exception: an Error's own, else the explanation's, else
// `memory` for exhausted memory or threads that cannot be started, else `internal`. Null gives
// `internal`.
Error describe_error(const std::exception_ptr& exception);

// Returns the line of error.what() that reports exhausted host or device memory, in the wording of
// the standard library, LibTorch, CUDA, cuBLAS, cuDNN or NCCL; empty for other errors. The result
// is a view into error.what().
std::string_view out_of_memory_line(const std::exception& error);

// Returns whether the system refused to start another thread.
bool is_out_of_threads(const std::exception& error);

}  // namespace tg
