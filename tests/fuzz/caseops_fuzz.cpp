// Any text is given back, and any coded text is read.
#include <algorithm>
#include <cstdlib>

#include "tests/fuzz/target.h"
#include "text/caseops.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  return {"McDonald iPhone NASA x1Y2Z naÏVE \U0001F600",
          "\ue001the \ue002nasa a\ue003b \ue004\ue004\ue004A",
          "\xee\x80\xee\x80\x81"
          "A\xee"};
}

void read(std::string_view bytes) {
  const auto coded = encode_case(bytes);
  if (CaseDecoder().add(coded) != bytes) std::abort();
  if (std::ranges::any_of(coded, [](char c) { return c >= 'A' && c <= 'Z'; })) std::abort();
  if (CaseDecoder().add(bytes).size() > bytes.size()) std::abort();
}

}  // namespace tg::fuzz
