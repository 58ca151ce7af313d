#include "text/raw_documents.h"

#include <algorithm>

#include "base/error.h"
#include "base/escaped.h"
#include "files/magic.h"
#include "text/foreign_format.h"

namespace tg {
namespace {

// Consecutive line ends (\n, \r\n or \r), text[begin, end): one ends a line, more are empty lines.
struct LineEnds {
  std::size_t begin = 0, end = 0;
  int count = 0;
};

// Two searches for one byte each are faster than one search for two bytes.
std::size_t find_line_end(std::string_view text, std::size_t from) {
  const auto feed = std::min(text.find('\n', from), text.size());
  return std::min(text.substr(0, feed).find('\r', from), feed);
}

LineEnds line_ends_at(std::string_view text, std::size_t begin) {
  LineEnds ends{.begin = begin, .end = begin, .count = 0};
  while (ends.end < text.size() && (text[ends.end] == '\n' || text[ends.end] == '\r')) {
    ends.end += text.substr(ends.end).starts_with("\r\n") ? 2 : 1;
    ++ends.count;
  }
  return ends;
}

// Returns the first run of at least two line ends from `from` on, else the run at the end of the
// text, which may continue in what is read next; begin == end == text.size() if there is none.
LineEnds find_empty_lines(std::string_view text, std::size_t from) {
  while (true) {
    const auto ends = line_ends_at(text, find_line_end(text, from));
    if (ends.count > 1 || ends.end == text.size()) return ends;
    from = ends.end;
  }
}

}  // namespace

RawDocuments::RawDocuments(const std::string& path, Separator separator,
                           const std::string& text_key)
    : text_(path),
      kind_(text_kind_named(path).value_or(TextKind::plain)),
      separator_(is_json() ? Separator::line : separator) {
  text_.fill_to(kForeignHead);
  refuse_foreign_format(text_.text(), text_.file(), text_key);
  take(text_.text().size() - without_byte_order_mark(text_.text()).size());
  if (kind_ != TextKind::json) return;
  const auto first = skip_json_space();
  if (first && first != '{' && first != '[')
    refuse_json("lines of JSON objects, or an array of them");
  is_array_ = first == '[';
  if (is_array_) take(1);
}

void RawDocuments::take(std::size_t bytes) {
  if (is_json()) {
    text_.take_counted(bytes);
  } else {
    text_.take(bytes);
  }
  searched_ = 0;
}

// Takes the document that ends at `end`; the next one begins at `next`.
RawDocument RawDocuments::take(std::size_t end, std::size_t next) {
  const RawDocument document{
      .bytes = text_.text().substr(0, end), .at = text_.at(), .position = text_.position()};
  take(next);
  return document;
}

// Takes the document before the next separator; nullopt if the text read so far has none.
std::optional<RawDocument> RawDocuments::take_separated() {
  const auto text = text_.text();
  if (separator_ == Separator::line) {
    auto end = searched_ = std::min(text.find('\n', searched_), text.size());
    const auto next = end + 1;
    if (end == text.size()) return {};
    if (end > 0 && text[end - 1] == '\r') --end;
    return take(end, next);
  }
  const auto lines = find_empty_lines(text, searched_);
  searched_ = lines.begin;
  // More line ends may follow in the file.
  if (lines.count < 2 || (lines.end == text.size() && !text_.ended())) return {};
  return take(lines.begin, lines.end);
}

std::optional<RawDocument> RawDocuments::take_part() {
  do {
    if (separator_ == Separator::file) continue;
    if (const auto document = take_separated()) return document;
  } while (text_.fill());
  if (text_.text().empty()) return {};
  if (separator_ == Separator::blank_line) {
    // The file ends with empty lines.
    if (const auto document = take_separated()) return document;
  }
  return take(text_.text().size(), text_.text().size());
}

std::optional<RawDocument> RawDocuments::take_element() {
  auto next = skip_json_space();
  if (next == ']') {
    take(1);
    if (skip_json_space()) refuse_json("nothing behind the array");
    is_array_ = false;
    return {};
  }
  if (has_element_) {
    if (next != ',') refuse_json("a comma or the array's end");
    take(1);
    next = skip_json_space();
  }
  if (next != '{') refuse_json("an object in the array");
  has_element_ = true;
  const auto end = find_object_end();
  return take(end, end);
}

// Only counts brackets; the reader of the object checks its syntax.
std::size_t RawDocuments::find_object_end() {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text_.text().size() || text_.fill();) {
    const auto text = text_.text();
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '"') in_string = !in_string;
      if (in_string && c == '\\') ++at;  // the next character is escaped, so no quote
      if (in_string) continue;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return at + 1;
    }
  }
  take(text_.text().size());
  refuse_json("the end of the object");
}

std::optional<char> RawDocuments::skip_json_space() {
  do {
    const auto text = text_.text();
    const auto space = text.find_first_not_of(" \t\r\n");
    take(std::min(space, text.size()));
    if (space != std::string_view::npos) return text[space];
  } while (text_.fill());
  return {};
}

void RawDocuments::refuse_json(const char* expected) const {
  const auto rest = text_.text();
  const auto [line, column] = text_.position();
  fail(ExitCode::bad_data, "{} line {} column {}: expected {}, found {}", text_.file().path(), line,
       column, expected, rest.empty() ? "the end of the file" : escaped(rest, 20));
}

}  // namespace tg
