#pragma once
// Files of NAME=value lines, as in configs/: comments begin with #, values may stand in quotes.
#include <string>
#include <string_view>
#include <vector>

namespace tg {

struct Assignment {
  std::string name;
  std::string value;
  int line;
};

// Errors: missing_input for a file that cannot be read, usage for a line that is no assignment.
std::vector<Assignment> read_env_file(const std::string& path);

// `value` as such a file spells it, quoted where it must be.
std::string quoted_value(std::string_view value);

}  // namespace tg
