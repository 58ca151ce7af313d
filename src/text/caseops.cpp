#include "text/caseops.h"

#include <algorithm>

namespace tg {
namespace {

enum Operator { kFirstCapital, kAllCapitals, kLaterCapital, kLiteral, kNone };

// Returns the operator at the beginning of `text`.
Operator operator_of(std::string_view text) {
  const auto at = std::ranges::find(kCaseOperators, text.substr(0, kCaseOperatorBytes));
  return static_cast<Operator>(at - kCaseOperators.begin());
}

constexpr char kCaseBit = 0x20;

bool is_small(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_letter(char c) {
  return is_small(c) || is_capital(c);
}

// Encodes a maximal run of letters.
void append_run(std::string_view run, std::string& coded) {
  const auto begin = run.begin(), end = run.end();
  const bool all_capitals = run.size() > 1 && std::all_of(begin, end, is_capital);
  if (all_capitals) coded += kCaseOperators[kAllCapitals];
  for (auto at = begin; at != end; ++at) {
    if (is_capital(*at) && !all_capitals)
      coded += kCaseOperators[at == begin ? kFirstCapital : kLaterCapital];
    coded += static_cast<char>(*at | kCaseBit);
  }
}

}  // namespace

std::string encode_case(std::string_view text) {
  std::string coded;
  coded.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const auto letters = static_cast<std::size_t>(
        std::find_if_not(text.begin(), text.end(), is_letter) - text.begin());
    append_run(text.substr(0, letters), coded);
    text.remove_prefix(letters);
    if (text.empty()) break;
    if (operator_of(text) != kNone) coded += kCaseOperators[kLiteral];
    coded += text.front();
    text.remove_prefix(1);
  }
  return coded;
}

std::string CaseDecoder::add(std::string_view part) {
  constexpr std::array kEffects = {Next::capital, Next::capitals, Next::capital, Next::literal};
  std::string text;
  text.reserve(part.size());
  while (!part.empty()) {
    const auto found = operator_of(part);
    if (found != kNone && next_ != Next::literal) {
      next_ = kEffects[found];
      part.remove_prefix(kCaseOperatorBytes);
      continue;
    }
    const char c = part.front();
    const bool letter = is_letter(c);
    const bool capital = letter && (next_ == Next::capital || next_ == Next::capitals);
    const auto size = found == kNone ? 1 : kCaseOperatorBytes;
    text.append(part.substr(0, size));
    if (capital) text.back() = static_cast<char>(c & ~kCaseBit);
    if (!letter || next_ != Next::capitals) next_ = Next::plain;
    part.remove_prefix(size);
  }
  return text;
}

}  // namespace tg
