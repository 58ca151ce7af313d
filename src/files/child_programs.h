#pragma once
// Programs of the system that read bytes and write bytes.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tg {

struct ChildProgram {
  std::vector<std::string> arguments;  // the first is the program, looked for in PATH
  std::vector<std::string> environment;
  std::string_view input;
  std::uint64_t max_output;  // bytes; of any file that it writes, too
  std::uint64_t max_memory;  // bytes of its address space
  std::string name;          // begins an error
};

struct ChildOutput {
  std::string bytes;       // what it wrote to standard output
  std::string last_words;  // to standard error, ": " before them; empty: none. For an error's end
};

// Runs all of them at once, without a shell → what each wrote. Input and output are files in
// memory: this function writes nothing of them to a disk. The children ignore the terminal and
// signals to the process group, and are killed with the thread that started them. The first that
// fails ends the others. Errors: missing_input (there is no such program); `failure`, with the
// child's last words, where one exits with other than 0, by a signal, or runs longer than `limit`.
// A program may exit with 0 where it has failed: the caller judges what it wrote.
std::vector<ChildOutput> run_side_by_side(const std::vector<ChildProgram>& programs,
                                          std::chrono::seconds limit, ExitCode failure);

}  // namespace tg
