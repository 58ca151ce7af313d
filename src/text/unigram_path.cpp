#include "text/unigram_path.h"

#include <algorithm>
#include <cfloat>

#include "base/utf8.h"

namespace tg {
namespace {

constexpr float unknown_penalty = 10.0F;  // below the lowest score

std::size_t character_bytes(char first) {
  const auto bits = static_cast<unsigned char>(first) >> 4;
  return bits < 0xc ? 1 : bits < 0xe ? 2 : bits < 0xf ? 3 : 4;
}

struct Range {
  char32_t first, last;
};

// Neither white space nor characters that combine with the preceding one.
constexpr Range letters[] = {
    {0x21, 0x7e},      // ASCII
    {0x410, 0x44f},    // Cyrillic
    {0x5d0, 0x5ea},    // Hebrew
    {0x621, 0x64a},    // Arabic
    {0x915, 0x939},    // Devanagari's consonants
    {0xe01, 0xe2e},    // Thai consonants
    {0x3041, 0x3096},  // Hiragana
    {0x30a1, 0x30fa},  // Katakana
    {0x4e00, 0x9fff},  // Chinese characters
    {0xac00, 0xd7a3},  // Hangul syllables
};

// Returns whether `character` is exactly one of these letters in UTF-8.
bool is_letter(std::string_view character) {
  if (first_utf8_character(character) != character) return false;
  const auto code = code_point(character);
  return std::ranges::any_of(
      letters, [&](const Range& range) { return range.first <= code && code <= range.last; });
}

// Tests the character that ends before `at` and the one that begins there.
bool is_between_letters(std::string_view text, std::size_t at) {
  if (continues_utf8_character(text[at])) return false;
  std::size_t begin = at - 1, end = at + 1;
  while (begin > 0 && continues_utf8_character(text[begin])) --begin;
  while (end < text.size() && continues_utf8_character(text[end])) ++end;
  return is_letter(text.substr(begin, at - begin)) && is_letter(text.substr(at, end - at));
}

bool is_inside(std::string_view text, std::size_t at, std::string_view whole) {
  for (std::size_t before = 1; before < whole.size() && before <= at; ++before) {
    if (text.substr(at - before).starts_with(whole)) return true;
  }
  return false;
}

}  // namespace

UnigramPieces::UnigramPieces(const std::vector<UnigramPiece>& pieces) : nodes_(1) {
  float least = FLT_MAX;
  largest_score_ = FLT_MIN;  // as in the library, where all scores are below zero
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const auto& piece = pieces[id];
    if (piece.text.empty()) continue;
    if (!piece.user_defined) {
      least = std::min(least, piece.score);
      largest_score_ = std::max(largest_score_, piece.score);
    }
    std::uint32_t node = 0;
    for (const char byte : piece.text) {
      const auto next = static_cast<std::uint32_t>(nodes_.size());
      const auto [child, added] = children_.try_emplace(child_key(node, byte), next);
      if (added) nodes_.emplace_back();
      node = child->second;
    }
    nodes_[node] = {static_cast<int>(id), piece.score, piece.user_defined};
    longest_ = std::max(longest_, piece.text.size());
  }
  unknown_score_ = least - unknown_penalty;
}

void UnigramPath::add(std::string_view normalised, bool is_last, const Visit& visit) {
  text_ += normalised;
  ends_.resize(text_.size() + 1);
  std::size_t known = 0;
  while (at_ < text_.size() && (is_last || text_.size() - at_ >= pieces_.longest_)) {
    if (furthest_ <= at_) known = at_;
    extend();
  }
  visit_up_to(is_last ? text_.size() : known, visit);
}

// Extends the path by each piece that begins at at_, or by a whole character.
void UnigramPath::extend() {
  const double score = ends_[at_].score;
  const auto character = std::min(character_bytes(text_[at_]), text_.size() - at_);
  bool has_character = false;
  std::uint32_t node = 0;
  for (std::size_t end = at_; end < text_.size();) {
    const auto child = pieces_.children_.find(UnigramPieces::child_key(node, text_[end]));
    if (child == pieces_.children_.end()) break;
    node = child->second;
    ++end;
    const auto& piece = pieces_.nodes_[node];
    if (piece.id < 0) continue;
    const auto bytes = end - at_;
    // Sums doubles and stores floats, as the library does.
    const double own = piece.user_defined ? static_cast<float>(bytes) * pieces_.largest_score_ - 0.1
                                          : static_cast<double>(piece.score);
    reach(end, piece.id, own + score);
    has_character |= bytes == character;
  }
  if (!has_character) {
    reach(at_ + character, unknown, pieces_.unknown_score_ + ends_[at_].score);
  }
  at_ += character;
}

void UnigramPath::reach(std::size_t end, int id, double score) {
  furthest_ = std::max(furthest_, end);
  auto& best = ends_[end];
  if (best.begin >= 0 && score <= best.score) return;
  best = {.id = id, .begin = static_cast<std::int64_t>(at_), .score = static_cast<float>(score)};
}

// The best path passes through `end`; the text after it stays, with its best paths so far.
void UnigramPath::visit_up_to(std::size_t end, const Visit& visit) {
  std::vector<std::size_t> steps;  // end positions, the last first
  for (auto at = end; at > 0; at = static_cast<std::size_t>(ends_[at].begin)) steps.push_back(at);
  std::size_t begin = 0;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    visit(ends_[*step].id, std::string_view(text_).substr(begin, *step - begin));
    begin = *step;
  }
  // No path that crosses `end` is left: all other paths begin there or later.
  const auto bytes = static_cast<std::ptrdiff_t>(end);
  text_.erase(0, end);
  ends_.erase(ends_.begin(), ends_.begin() + bytes);
  for (End& other : ends_) other.begin -= other.begin < 0 ? 0 : bytes;
  ends_.front().begin = -1;
  at_ -= end;
  furthest_ -= std::min(furthest_, end);
}

std::vector<std::string_view> split_between_letters(std::string_view text, std::size_t size,
                                                    const std::vector<std::string>& whole) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t at = size; at < text.size(); ++at) {
    const auto cuts = [&](const std::string& symbol) { return is_inside(text, at, symbol); };
    if (!is_between_letters(text, at) || std::ranges::any_of(whole, cuts)) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at;
    at += size - 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace tg
