// A JSON object with a document: what is found of one becomes text.
#include <cstdlib>

#include "base/utf8.h"
#include "tests/fuzz/target.h"
#include "text/json_object.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"id": 7, "text": "a \"word\" \u00e9\ud83d\ude00\n", "meta": {"a": [1, -2.5e3, null]}})",
      R"({"text":"","text":"twice"})", R"({"n": [NaN, {"a": "\ud800"}], "te\u0078t": "\udc00\/"})"};
}

void read(std::string_view bytes) {
  const auto written = find_json_string(bytes, "text", {.path = "file", .position = {}, .at = 100});
  const auto text = text_of_json_string(written).text;
  if (valid_utf8_prefix(written) == written.size() && valid_utf8_prefix(text) != text.size())
    std::abort();
}

}  // namespace tg::fuzz
