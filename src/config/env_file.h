#pragma once
// Files of NAME=value lines, as in configs/: comments begin with #, values may be quoted, and
// INCLUDE=FILE stands for the lines of that file, by a path from the folder of the one that has it.
#include <string>
#include <string_view>
#include <vector>

namespace tg {

struct Assignment {
  std::string name;
  std::string value;
  int line;               // 0: not of such a file
  std::string file = {};  // the path of that file
};

// Errors: missing_input (a file cannot be read), usage (a line is not an assignment, or a file
// includes itself).
std::vector<Assignment> read_env_file(const std::string& path);

// `value` as written in such a file, quoted if necessary.
std::string quoted_value(std::string_view value);

}  // namespace tg
