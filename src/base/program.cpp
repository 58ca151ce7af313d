#include "base/program.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "base/process_exit.h"
#include "base/strings.h"

namespace tg {
namespace {

constexpr std::string_view kOutOfMemory[] = {
    "not enough memory",  // LibTorch's host allocator has no exception type of its own
    "can't allocate memory",
    "Cannot allocate memory",  // ENOMEM
    "CUDA out of memory",      // LibTorch's device allocator
    "out of memory",           // cudaErrorMemoryAllocation, also in "Cuda failure 2 '…'" of NCCL
    "CUDA_ERROR_OUT_OF_MEMORY",
    "_STATUS_ALLOC_FAILED",   // cuBLAS, cuDNN, cuSPARSE
    "_ALLOCATION_FAILED",     // cuDNN 9
    "Failed to CUDA calloc",  // NCCL
    "Failed to CUDA host alloc",
    "std::bad_alloc"};

Explanation& explanation() {
  static Explanation current;
  return current;
}

Error describe(const std::exception& error) {
  if (explanation()) {
    if (const auto explained = explanation()(error)) return *explained;
  }
  if (const auto line = out_of_memory_line(error); !line.empty()) {
    return {ExitCode::memory, fmt::format("out of memory: {}", line)};
  }
  if (is_out_of_threads(error)) {
    return {ExitCode::memory,
            fmt::format("cannot start a thread ({}); raise the limit of processes (ulimit -u, or "
                        "pids of the container), or use fewer threads",
                        error.what())};
  }
  return {ExitCode::internal, std::string(first_line(error.what()))};
}

// Printed when not even the memory to format the error's line is left.
constexpr std::string_view kNoMemoryLine =
    "ERROR exit=71: out of memory, even for the details of this error; use a smaller model or "
    "batch\n";

// Unlinking may block, since storage may be what failed.
constexpr auto kRemovalTimeout = std::chrono::seconds(2);

std::atomic_flag exiting;

// Returns in the first thread that calls it, which ends the process; other threads wait forever.
void claim_exit() {
  static thread_local bool claimed = false;
  if (claimed) return;
  while (exiting.test_and_set()) ::pause();
  claimed = true;
}

[[noreturn]] void exit_with(ExitCode code) {
  run_at_most(kRemovalTimeout, remove_files_on_exit);
  if (code == ExitCode::unavailable) std::this_thread::sleep_for(kLostPeerDelay);
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

[[noreturn]] void end_by_exception() {
  claim_exit();
  auto code = ExitCode::memory;
  try {
    const auto error = describe_error(std::current_exception());
    code = error.exit_code();
    error_line(static_cast<int>(code), error.what());
  } catch (...) {
    [[maybe_unused]] const auto written =
        ::write(STDERR_FILENO, kNoMemoryLine.data(), kNoMemoryLine.size());
  }
  exit_with(code);
}

}  // namespace

std::string_view out_of_memory_line(const std::exception& error) {
  const std::string_view text(error.what());
  for (const auto words : kOutOfMemory) {
    const auto found = text.find(words);
    if (found == std::string_view::npos) continue;
    const auto begin = text.rfind('\n', found) + 1;  // npos + 1: the first line
    return text.substr(begin, text.find('\n', found) - begin);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "std::bad_alloc";
  return {};
}

bool is_out_of_threads(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

bool is_ending() {
  return exiting.test();
}

void silence_other_threads() {
  claim_exit();
}

void end_process(const Error& error, const std::function<void()>& last) {
  claim_exit();
  error_line(static_cast<int>(error.exit_code()), error.what());
  last();
  exit_with(error.exit_code());
}

void end_process(ExitCode code) {
  claim_exit();
  exit_with(code);
}

void explain_errors_with(Explanation new_explanation) {
  explanation() = std::move(new_explanation);
}

Error describe_error(const std::exception_ptr& exception) {
  if (!exception) return {ExitCode::internal, "the program terminated without an exception"};
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return describe(error);
  } catch (...) {
    return {ExitCode::internal, "an exception of an unknown type"};
  }
}

// libstdc++ finds no handler on the stack and calls terminate at the throw, before unwinding (the
// standard allows either).
int run_program(const std::function<void()>& program) {
  std::set_terminate(end_by_exception);
  program();
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tg
