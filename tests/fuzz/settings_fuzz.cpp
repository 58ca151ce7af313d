// A --config file: each value, written as quoted_value() writes it, must be read back, and so must
// the settings with these values.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "config/resolved.h"
#include "tests/fuzz/assigned.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {
namespace {

std::vector<Assignment> assignments_in(std::string_view text) {
  static ScratchFile file;
  file.put(text);
  return read_env_file(file.path());
}

}  // namespace

std::vector<std::string> seeds() {
  return {"# a comment\nMATRIX_LR=0.025\n\nRUN_ID=\"two words\" # more\nDATA_PATH='a#b'\n",
          "TTT_ENABLED = 1\r\nRUN_ID=\"a \\\"quote\\\" \\\\ \\n end\"\nITERATIONS=20#0 # c\n",
          "INCLUDE=there_is_none\n",
          "DEVICE=cpu\nITERATIONS=+7\nMAX_WALLCLOCK_SECONDS=1e3\nVE_LAYERS=9,10\nARTIFACT=none\n"};
}

void read(std::string_view bytes) {
  std::vector<Assignment> assignments;
  try {
    assignments = assignments_in(bytes);
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::missing_input) throw;
    return;  // a file that it includes
  }
  std::string again;
  for (const auto& assignment : assignments)
    again += assignment.name + "=" + quoted_value(assignment.value) + "\n";
  const auto equal = [](const Assignment& a, const Assignment& b) {
    return a.name == b.name && a.value == b.value;
  };
  if (!std::ranges::equal(assignments, assignments_in(again), equal)) std::abort();

  const std::string text = settings_text(assigned(assignments));
  if (settings_text(assigned(assignments_in(text))) != text) std::abort();
}

}  // namespace tg::fuzz
