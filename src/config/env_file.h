#pragma once
// Files of NAME=value lines, as in configs/: comments begin with #, values may be quoted, and
// INCLUDE=FILE inserts the lines of FILE, a path relative to the including file's folder.
#include <string>
#include <string_view>
#include <vector>

namespace tg {

struct Assignment {
  std::string name;
  std::string value;
  int line;               // 0: not from a file of lines
  std::string file = {};  // its path
};

// Throws Error: missing_input if a file cannot be read; usage if a line is not an assignment or a
// file includes itself.
std::vector<Assignment> read_env_file(const std::string& path);

// Returns `value` as written in a file of NAME=value lines, quoted if necessary.
std::string quoted_value(std::string_view value);

}  // namespace tg
