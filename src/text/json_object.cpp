#include "text/json_object.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/escaped.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "files/magic.h"

namespace tg {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kEscapes = "\"\\/bfnrt", kEscaped = "\"\\/\b\f\n\r\t";
constexpr std::size_t kUnitDigits = 4;
constexpr const char* kNoJson = "no JSON";
constexpr const char* kUnterminated =
    "an object that does not end in its line: one over several lines, or cut short";
constexpr const char* kOneALine = ", as jq -c . FILE writes them";

// Parses four hexadecimal digits, a UTF-16 code unit.
std::optional<unsigned> code_unit(std::string_view digits) {
  if (digits.size() < kUnitDigits) return {};
  return parse_number<unsigned>(digits.substr(0, kUnitDigits), 16);
}

// Appends the character of the escape \uXXXX at `at`, or of a surrogate pair of escapes, and
// returns the offset of its end.
std::size_t append_code_units(std::string_view written, std::size_t at, JsonText& result) {
  constexpr std::size_t length = 2 + kUnitDigits;
  const auto unit = code_unit(written.substr(at + 2)).value_or(0xd800);
  const auto second = written.substr(std::min(at + length, written.size()));
  const auto low = second.starts_with("\\u") ? code_unit(second.substr(2)) : std::nullopt;
  if (is_high_surrogate(unit) && low && is_low_surrogate(*low)) {
    append_utf8(result.text, 0x10000 + ((unit - 0xd800) << 10) + (*low - 0xdc00));
    return at + 2 * length;
  }
  const bool lone = is_high_surrogate(unit) || is_low_surrogate(unit);
  if (lone && !result.lone_surrogate) result.lone_surrogate = at;
  append_utf8(result.text, lone ? 0xfffd : unit);
  return at + length;
}

// Finds a member of an object; throws at the first syntax error.
class ObjectReader {
 public:
  ObjectReader(std::string_view text, std::string_view key, const JsonPlace& place)
      : text_(text), key_(key), place_(place) {}

  std::string_view find() {
    read_members();
    if (value_.empty()) refuse(0, other_keys(), ", or name another key with --text-key (TEXT_KEY)");
    if (value_.front() != '"') {
      refuse(0, fmt::format("a \"{}\" that is {}", escaped(key_), kind_of(value_)));
    }
    value_ = value_.substr(1, value_.size() - 2);
    check_string();
    return value_;
  }

 private:
  // Returns whether the next character after white space is `c`.
  bool next_is(char c) {
    skip_space();
    return rest().starts_with(c);
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }
  bool take(char c) {
    const bool found = next_is(c);
    if (found) ++at_;
    return found;
  }
  void require(bool found) const {
    if (found) return;
    if (at_ < text_.size()) refuse(at_, kNoJson);
    refuse(at_, kUnterminated, kOneALine);
  }

  void read_members() {
    if (text_.starts_with(kByteOrderMark)) {
      refuse(0, "a byte order mark before it, as cat leaves between files",
             "; sed 's/\\xEF\\xBB\\xBF//g' FILE removes it");
    }
    if (!take('{')) {
      const auto kind = kind_of(rest());
      refuse(at_, kind == kNoJson ? kind : "JSON " + kind);
    }
    if (!take('}')) {
      do read_member();
      while (take(','));
      require(take('}'));
    }
    skip_space();
    require(at_ == text_.size());
  }

  void read_member() {
    require(next_is('"'));
    const auto key = take_string();
    keys_.push_back(key);
    require(take(':'));
    skip_space();
    const auto begin = at_;
    skip_value();
    const bool found = key.find('\\') == std::string_view::npos
                           ? key == key_
                           : text_of_json_string(key).text == key_;
    if (found) value_ = text_.substr(begin, at_ - begin);
  }

  // Consumes a string, from its opening quote on, and returns it without quotes.
  std::string_view take_string() {
    const auto begin = ++at_;
    while (true) {
      at_ = std::min(text_.find_first_of("\"\\", at_), text_.size());
      require(at_ < text_.size());
      if (text_[at_++] == '"') return text_.substr(begin, at_ - 1 - begin);
      ++at_;  // skips the character after a backslash
    }
  }

  void skip_value() {
    require(at_ < text_.size());
    const char first = text_[at_];
    if (first == '"') {
      take_string();
    } else if (first == '{' || first == '[') {
      skip_brackets();
    } else {
      const auto begin = at_;
      at_ = std::min(text_.find_first_of(",:\"{}[] \t\r\n", at_), text_.size());
      require(at_ > begin);
    }
  }

  void skip_brackets() {
    std::string closing;
    do {
      at_ = std::min(text_.find_first_of("\"{}[]", at_), text_.size());
      require(at_ < text_.size());
      const char c = text_[at_];
      if (c == '"') {
        take_string();
        continue;
      }
      if (c == '{' || c == '[') {
        closing += c == '{' ? '}' : ']';
      } else {
        require(c == closing.back());
        closing.pop_back();
      }
      ++at_;
    } while (!closing.empty());
  }

  // Checks that all escapes are valid and that there are no control characters.
  void check_string() {
    at_ = static_cast<std::size_t>(value_.data() - text_.data());
    for (const auto end = at_ + value_.size(); at_ < end; ++at_) {
      if (const auto byte = static_cast<unsigned char>(text_[at_]); byte < ' ') {
        refuse(at_, fmt::format("the control character 0x{:02x} in that string", byte),
               fmt::format(", in which JSON writes it as \\u{:04x}", byte).c_str());
      }
      if (text_[at_] != '\\') continue;
      const auto escape = text_.substr(at_ + 1, end - at_ - 1);
      require(kEscapes.find(escape.front()) != std::string_view::npos ||
              (escape.front() == 'u' && code_unit(escape.substr(1))));
      at_ += escape.front() == 'u' ? 1 + kUnitDigits : 1;
    }
  }

  std::string_view rest() const { return text_.substr(at_); }

  static std::string kind_of(std::string_view value) {
    if (value.starts_with('{')) return "object";
    if (value.starts_with('[')) return "array";
    if (value.starts_with('"')) return "string";
    if (value.starts_with("true") || value.starts_with("false")) return "boolean";
    if (value.starts_with("null")) return "null";
    return value.find_first_of("-0123456789NI") == 0 ? "number" : kNoJson;
  }

  std::string other_keys() const {
    if (keys_.empty()) return "an object without members";
    constexpr std::size_t max_keys = 12;
    std::string list = "an object with the keys ";
    for (std::size_t i = 0; i < std::min(keys_.size(), max_keys); ++i)
      list += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", escaped(keys_[i], 40));
    if (keys_.size() > max_keys) list += fmt::format(" and {} more", keys_.size() - max_keys);
    return list;
  }

  [[noreturn]] void refuse(std::size_t at, const std::string& found,
                           const char* advice = "") const {
    auto position = place_.position;
    position.advance(text_.substr(0, at));
    fail(ExitCode::bad_data,
         "{} line {} holds no document at byte {} (expected a JSON object with a string \"{}\", "
         "found {}); every line, or element of an array, must be such an object{}",
         place_.path, position.line, place_.at + static_cast<std::int64_t>(at), escaped(key_),
         found, advice);
  }

  std::string_view text_, key_;
  const JsonPlace& place_;
  std::size_t at_ = 0;
  std::vector<std::string_view> keys_;  // raw, escapes not decoded
  std::string_view value_;              // the last value of key_, with its quotes
};

}  // namespace

std::string_view find_json_string(std::string_view object, std::string_view key,
                                  const JsonPlace& place) {
  return ObjectReader(object, key, place).find();
}

JsonText text_of_json_string(std::string_view written) {
  JsonText result;
  for (std::size_t at = 0; at < written.size();) {
    const auto plain = written.substr(at, written.find('\\', at) - at);
    result.text += plain;
    at += plain.size();
    if (at + 1 >= written.size()) break;
    const auto escape = kEscapes.find(written[at + 1]);
    if (escape == std::string_view::npos) {
      at = append_code_units(written, at, result);
    } else {
      result.text += kEscaped[escape];
      at += 2;
    }
  }
  return result;
}

}  // namespace tg
