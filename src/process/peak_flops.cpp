#include "process/peak_flops.h"

#include <cctype>

namespace tg {

namespace {

struct Peak {
  std::string_view name;
  double bf16_tflops;
};
constexpr Peak kPeaks[] = {{"GB200", 2500},   {"B200", 2250},      {"GH200", 989.5},
                           {"H200", 989.5},   {"H200 NVL", 836},   {"H100", 989.5},
                           {"H100 NVL", 835}, {"H100 PCIe", 756},  {"A100", 312},
                           {"L40S", 362},     {"RTX 5090", 209.5}, {"RTX 4090", 165.2},
                           {"RTX 3090", 71}};

// Matches whole words: "GB200" does not contain "B200".
bool has_words(std::string_view text, std::string_view words) {
  const auto ends_word = [&](std::size_t at) {
    return at >= text.size() || std::isalnum(static_cast<unsigned char>(text[at])) == 0;
  };
  for (auto at = text.find(words); at != text.npos; at = text.find(words, at + 1)) {
    if ((at == 0 || ends_word(at - 1)) && ends_word(at + words.size())) return true;
  }
  return false;
}

}  // namespace

double peak_bf16_flops(std::string_view gpu) {
  if (has_words(gpu, "Laptop")) return 0;  // another chip under the same name
  const Peak* longest = nullptr;
  for (const auto& peak : kPeaks) {
    const bool longer = longest == nullptr || peak.name.size() > longest->name.size();
    if (longer && has_words(gpu, peak.name)) longest = &peak;
  }
  return longest == nullptr ? 0 : longest->bf16_tflops * 1e12;
}

}  // namespace tg
