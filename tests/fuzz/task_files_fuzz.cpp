// The lines of a task's test file: HellaSwag's, then LAMBADA's.
#include "base/error.h"
#include "eval/tasks/task_files.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  const std::string line =
      R"({"ctx": "The licence", "endings": ["is", "was", "\u00e9", ""], "label": 2, "text": "a word"})";
  return {line, line + "\n\n" + line + "\r\n",
          R"({"ctx": "", "endings": ["a", "", "b", "c"], "label": "3"})"};
}

void read(std::string_view bytes) {
  static ScratchFile file;
  file.put(bytes);
  try {
    read_hellaswag(file.path());
  } catch (const Error&) {
  }
  read_lambada(file.path());
}

}  // namespace tg::fuzz
