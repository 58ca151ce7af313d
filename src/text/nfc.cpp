#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"

namespace tg {
namespace {

// Characters below U+0300 are their own normal form, and no mark or letter before them changes
// them: text may be cut in front of each. Their first byte is less than this one.
constexpr unsigned char kFirstByteOfMarks = 0xcc;

bool may_change(char byte) {
  return static_cast<unsigned char>(byte) >= kFirstByteOfMarks;
}

using CodePoints = std::vector<utf8proc_int32_t>;

int combining_class(utf8proc_int32_t point) {
  return utf8proc_get_property(point)->combining_class;
}

// Appends the canonical decomposition of the character at the beginning of `text`; returns its
// bytes.
std::size_t decompose_first(std::string_view text, CodePoints& points) {
  utf8proc_int32_t point = 0;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &point);
  std::array<utf8proc_int32_t, 8> parts{};  // Unicode's longest decomposition has 4
  const auto count = utf8proc_decompose_char(
      point, parts.data(), parts.size(),
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), nullptr);
  REQUIRE(bytes > 0 && count > 0 && count <= std::ssize(parts), ExitCode::internal,
          "utf8proc failed to decompose U+{:04X}", static_cast<unsigned>(point));
  points.insert(points.end(), parts.begin(), parts.begin() + count);
  return static_cast<std::size_t>(bytes);
}

// Puts consecutive marks in the order of their classes. utf8proc's own order takes time in
// proportion to the square of their number.
void order_marks(CodePoints& points) {
  const auto is_mark = [](auto point) { return combining_class(point) > 0; };
  for (auto begin = points.begin(); begin != points.end();) {
    begin = std::find_if(begin, points.end(), is_mark);
    const auto end = std::find_if_not(begin, points.end(), is_mark);
    std::ranges::stable_sort(begin, end, {}, combining_class);
    begin = end;
  }
}

std::string normalized(std::string_view run) {
  CodePoints points;
  while (!run.empty()) run.remove_prefix(decompose_first(run, points));
  order_marks(points);
  const auto count =
      utf8proc_normalize_utf32(points.data(), std::ssize(points),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  REQUIRE(count >= 0, ExitCode::internal, "utf8proc failed to compose characters");
  points.resize(static_cast<std::size_t>(count));
  std::string text;
  for (const auto point : points) append_utf8(text, static_cast<char32_t>(point));
  return text;
}

}  // namespace

NfcText::NfcText(std::string_view original) : original_(original) {
  // A run is the characters from U+0300 on with the one before them.
  std::size_t before = 0;  // where the last character begins
  for (std::size_t at = 0; at < original.size();) {
    if (!may_change(original[at])) {
      before = continues_utf8_character(original[at]) ? before : at;
      ++at;
      continue;
    }
    auto end = at;
    while (end < original.size() && may_change(original[end])) {
      const auto character = first_utf8_character(original.substr(end));
      if (character.empty()) break;  // no UTF-8
      end += character.size();
    }
    const auto prefix = original.substr(before, at - before);
    const auto begin = valid_utf8_prefix(prefix) == prefix.size() ? before : at;
    if (end > at) add_run(original.substr(begin, end - begin));
    at = std::max(end, at + 1);
    before = at;
  }
  if (!changed_.empty()) {
    const auto& last = changed_.back();
    text_ += original.substr(last.original_begin + last.original_size);
  }
}

void NfcText::add_run(std::string_view run) {
  auto text = normalized(run);
  if (text == run) return;
  const auto begin = static_cast<std::size_t>(run.data() - original_.data());
  const auto copied =
      changed_.empty() ? 0 : changed_.back().original_begin + changed_.back().original_size;
  text_ += original_.substr(copied, begin - copied);
  changed_.push_back({text_.size(), text.size(), begin, run.size()});
  text_ += text;
}

std::size_t NfcText::original_bytes(std::size_t at) const {
  const auto after = std::ranges::upper_bound(changed_, at, {}, &Changed::begin);
  if (after == changed_.begin()) return at;
  const auto& run = *(after - 1);
  const auto within = at - run.begin;
  if (within >= run.size) return run.original_begin + run.original_size + (within - run.size);
  return run.original_begin + within * run.original_size / run.size;
}

}  // namespace tg
