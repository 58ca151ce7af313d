#pragma once
// Files of NAME=value lines, as in configs/: comments begin with #, values may be quoted.
#include <string>
#include <string_view>
#include <vector>

namespace tg {

struct Assignment {
  std::string name;
  std::string value;
  int line;  // 0: not of such a file
};

// Errors: missing_input (the file cannot be read), usage (a line is not an assignment).
std::vector<Assignment> read_env_file(const std::string& path);

// `value` as written in such a file, quoted if necessary.
std::string quoted_value(std::string_view value);

}  // namespace tg
