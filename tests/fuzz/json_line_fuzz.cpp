// A line of a .jsonl file.
#include "data/json_line.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"id": 7, "text": "a \"word\" \u00e9\ud83d\ude00\n", "meta": {"a": [1, -2.5e3, null]}})",
      R"({"text":"","text":"twice"})"};
}

void read(std::string_view bytes) {
  text_of_json_line(bytes, {.path = "file", .line = 3, .byte = 100});
}

}  // namespace tg::fuzz
