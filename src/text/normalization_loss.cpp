#include "text/normalization_loss.h"

#include <algorithm>

#include "base/log.h"
#include "base/utf8.h"

namespace tg {
namespace {

constexpr std::size_t kMeasuredBytes = 256 << 10;
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

// Returns about kMeasuredBytes of a text, without the white space before the cut, which would only
// there be at an end.
std::string_view measured_part(std::string_view text) {
  if (text.size() <= kMeasuredBytes) return text;
  text = text.substr(0, kMeasuredBytes);
  text = text.substr(0, valid_utf8_prefix(text));
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}

}  // namespace

NormalizationLoss::NormalizationLoss(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), measuring_(!tokenizer.keeping_flags().empty()) {}

void NormalizationLoss::add(std::string_view document) {
  if (!measuring_) return;
  measure(measured_part(document));
  if (bytes_ >= std::int64_t{kMeasuredBytes}) finish();
}

NormalizationLoss::Counts NormalizationLoss::counts_of(
    std::string_view text, std::map<std::string_view, std::int64_t>& others) {
  Counts counts;
  const auto last = text.find_last_not_of(' ');
  bool after_space = true;
  for (std::size_t at = 0; at < text.size();) {
    auto character = first_utf8_character(text.substr(at));
    if (character.empty()) character = text.substr(at, 1);
    const char first = character.front();
    if (first == '\n' || first == '\r') {
      ++counts.line_ends;
    } else if (first != ' ') {
      ++counts.characters;
      ++others[character];
    } else if (after_space || last == std::string_view::npos || at > last) {
      ++counts.extra_spaces;
    }
    after_space = kWhiteSpace.find(first) != std::string_view::npos;
    at += character.size();
  }
  return counts;
}

void NormalizationLoss::measure(std::string_view document) {
  const auto left = tokenizer_.normalized(document);
  std::map<std::string_view, std::int64_t> characters, characters_left;
  const auto before = counts_of(document, characters);
  const auto after = counts_of(left, characters_left);
  ++documents_;
  bytes_ += std::ssize(document);
  in_text_.line_ends += before.line_ends;
  in_text_.extra_spaces += before.extra_spaces;
  in_text_.characters += before.characters;
  lost_.line_ends += std::max<std::int64_t>(0, before.line_ends - after.line_ends);
  lost_.extra_spaces += std::max<std::int64_t>(0, before.extra_spaces - after.extra_spaces);
  for (const auto& [character, count] : characters)
    lost_.characters += std::max<std::int64_t>(0, count - characters_left[character]);
}

void NormalizationLoss::finish() {
  if (!measuring_) return;
  measuring_ = false;
  std::string losses;
  const auto add_loss = [&](std::int64_t lost, std::int64_t all, const char* what) {
    if (lost > 0)
      losses += fmt::format("{}{} of {} {}", losses.empty() ? "" : ", ", lost, all, what);
  };
  add_loss(lost_.line_ends, in_text_.line_ends, "line ends");
  add_loss(lost_.extra_spaces, in_text_.extra_spaces, "repeated, leading and trailing spaces");
  add_loss(lost_.characters, in_text_.characters, "other characters");
  if (losses.empty()) return;
  log_warn_once(
      "tokenizer {} does not keep the text: of the first {} documents, {} bytes, it drops or "
      "changes {}; bits per byte count the remaining text. To keep them, train it with {}",
      tokenizer_.path(), documents_, bytes_, losses, tokenizer_.keeping_flags());
}

}  // namespace tg
