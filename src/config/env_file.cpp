#include "config/env_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <span>
#include <sstream>

#include "base/error.h"
#include "config/types/text.h"
#include "files/file.h"
#include "files/magic.h"

namespace tg {
namespace {

constexpr std::string_view kInclude = "INCLUDE";

// Returns the text between quotes; nothing if the closing quote is missing or text follows it.
std::optional<std::string> unquoted(std::string_view text) {
  const char quote = text[0];
  std::string value;
  std::size_t i = 1;
  for (; i < text.size() && text[i] != quote; ++i) {
    const bool escape = quote == '"' && text[i] == '\\' && i + 1 < text.size();
    if (!escape) {
      value += text[i];
      continue;
    }
    const char next = text[++i];
    if (next == 'n') {
      value += '\n';
    } else if (next == 'r') {
      value += '\r';
    } else {
      if (next != '"' && next != '\\') value += '\\';
      value += next;
    }
  }
  if (i == text.size()) return std::nullopt;
  const auto rest = trimmed(text.substr(i + 1));
  if (!rest.empty() && rest[0] != '#') return std::nullopt;
  return value;
}

std::optional<std::string> parse_value(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text[0] == '#') return "";
  if (text[0] == '"' || text[0] == '\'') return unquoted(text);
  // As in a shell, a # inside a word does not begin a comment.
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '#' && std::isspace(static_cast<unsigned char>(text[i - 1]))) {
      return std::string(trimmed(text.substr(0, i)));
    }
  }
  return std::string(text);
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// Reads a file or a pipe, as in `--config <(sed ...)`.
std::string read_text(const std::string& path) {
  constexpr std::size_t largest = 1 << 20;
  File file = File::open_stream(path);
  std::string text(largest + 1, '\0');
  std::size_t size = 0;
  while (const auto got = file.read_some(std::span(text).subspan(size))) {
    size += static_cast<std::size_t>(got);
  }
  REQUIRE(size <= largest, ExitCode::usage, "--config {}: expected at most {} bytes, found more",
          path, largest);
  text.resize(size);
  return text;
}

namespace fs = std::filesystem;

// Resolves `included` relative to the folder of the file at `path`, or to the current folder if
// `path` is a pipe.
std::string path_from(const std::string& path, const std::string& included) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return included;
  return fs::path(path).parent_path() / included;
}

// Appends the lines of the file at `path`. `open`: this file and the files that include it.
void append_lines(const std::string& path, std::vector<std::string>& open,
                  std::vector<Assignment>& assignments) {
  std::istringstream lines(read_text(path));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto text = trimmed(number == 1 ? without_byte_order_mark(line) : line);
    if (text.empty() || text[0] == '#') continue;
    const auto equals = text.find('=');
    const auto name = trimmed(text.substr(0, equals));
    REQUIRE(equals != std::string_view::npos && is_name(name), ExitCode::usage,
            "{}:{}: expected NAME=value, found '{}'", path, number, text.substr(0, 80));
    const auto value = parse_value(text.substr(equals + 1));
    REQUIRE(value.has_value(), ExitCode::usage,
            "{}:{}: the quotes of {} do not close at the line's end", path, number, name);
    if (name != kInclude) {
      assignments.push_back({std::string(name), *value, number, path});
      continue;
    }
    const auto included = path_from(path, *value);
    std::error_code ignored;
    REQUIRE(fs::exists(included, ignored), ExitCode::missing_input,
            "{}:{}: expected INCLUDE of a file, found no {}", path, number, included);
    const bool again = std::ranges::any_of(
        open, [&](const auto& other) { return fs::equivalent(other, included, ignored); });
    REQUIRE(!again, ExitCode::usage, "{}:{}: expected INCLUDE of another file, found {} again",
            path, number, included);
    open.push_back(included);
    append_lines(included, open, assignments);
    open.pop_back();
  }
}

}  // namespace

std::vector<Assignment> read_env_file(const std::string& path) {
  std::vector<std::string> open{path};
  std::vector<Assignment> assignments;
  append_lines(path, open, assignments);
  return assignments;
}

std::string quoted_value(std::string_view value) {
  constexpr std::string_view plain = "_./,:+-@%=";
  if (std::all_of(value.begin(), value.end(), [&](unsigned char c) {
        return std::isalnum(c) || plain.find(static_cast<char>(c)) != std::string_view::npos;
      })) {
    return std::string(value);
  }
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n' || c == '\r') {
      quoted += c == '\n' ? "\\n" : "\\r";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace tg
