#pragma once
// Runs external programs that map input bytes to output bytes.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tg {

struct ChildProgram {
  std::vector<std::string> arguments;  // the program, looked up in PATH, then its arguments
  std::vector<std::string> environment;
  std::string_view input;
  std::uint64_t max_output;  // bytes of standard output, and of any file that the program writes
  std::uint64_t max_memory;  // bytes of its address space
  std::string name;          // prefix of error messages
};

struct ChildOutput {
  std::string bytes;        // standard output
  std::string stderr_tail;  // ": " and the end of standard error, for error messages; empty: none
};

// Runs all programs concurrently, without a shell, and returns the output of each. Standard input,
// output and error are memory files: this function writes nothing to a disk. The children ignore
// the terminal and signals to the process group, and are killed with the thread that started them.
// The first failure ends the others. Throws Error(missing_input) if there is no such program, and
// Error(failure), with the child's last words, if a child exits with a nonzero status or by a
// signal, or runs longer than `limit`. A program may exit with 0 although it failed: the caller
// checks its output.
std::vector<ChildOutput> run_concurrently(const std::vector<ChildProgram>& programs,
                                          std::chrono::seconds limit, ExitCode failure);

}  // namespace tg
