#include "config/types/text.h"

#include <cmath>

#include "base/python_format.h"
#include "base/strings.h"

namespace tg {
namespace {

// from_chars does not accept a leading plus sign, Python does.
std::string_view number_text(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  return text;
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto read = parse_number<T>(number_text(text));
  if (read) value = *read;
  return read.has_value();
}

std::vector<std::string_view> split_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto part = trimmed(text.substr(0, comma));
    if (!part.empty()) parts.push_back(part);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return parts;
}

// Whole numbers without a fraction: 1 rather than 1.0.
std::string item_text(double value) {
  const bool whole = std::abs(value) < 1e15 && value == std::floor(value);
  return whole ? value_text(static_cast<std::int64_t>(value)) : py_repr(value);
}

std::string item_text(std::int64_t value) {
  return value_text(value);
}
std::string item_text(const Ramps& ramps) {
  std::vector<std::string> texts;
  for (const auto& [from, to] : ramps)
    texts.push_back(from == to ? item_text(from) : item_text(from) + ":" + item_text(to));
  return fmt::format("{}", fmt::join(texts, "/"));
}

bool read_value(std::string_view text, Ramps& ramps) {
  for (;;) {
    const auto slash = text.find('/');
    const auto item = text.substr(0, slash);
    const auto colon = item.find(':');
    auto& ramp = ramps.emplace_back();
    if (!tg::read_value(item.substr(0, colon), ramp.from)) return false;
    ramp.to = ramp.from;
    if (colon != std::string_view::npos && !tg::read_value(item.substr(colon + 1), ramp.to))
      return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

}  // namespace

std::string env_name(std::string_view member) {
  std::string name(member);
  for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::string flag_name(std::string_view member) {
  std::string name(member);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string value_text(std::int64_t value) {
  return fmt::format("{}", value);
}
std::string value_text(double value) {
  return py_repr(value);
}
std::string value_text(bool value) {
  return value ? "1" : "0";
}
std::string value_text(const std::string& value) {
  return value;
}
std::string value_text(const Every& value) {
  return fmt::format("{}{}", value.count, value.minutes ? "m" : "");
}
std::string value_text(const Fp8Parts& value) {
  if (!value.any() || value.all()) return value_text(value.any());
  std::vector<std::string> chosen;
  for (const auto& [name, part] : Fp8Parts::names()) {
    if (value.*part) chosen.emplace_back(name);
  }
  return value_text(chosen);
}
bool read_value(std::string_view text, std::int64_t& value) {
  return read_number(text, value);
}

bool read_value(std::string_view text, double& value) {
  double read = 0;
  if (!read_number(text, read) || !std::isfinite(read)) return false;
  value = read;
  return true;
}

bool read_value(std::string_view text, bool& value) {
  const std::string upper = env_name(trimmed(text));
  if (upper != "0" && upper != "1" && upper != "FALSE" && upper != "TRUE") return false;
  value = upper == "1" || upper == "TRUE";
  return true;
}

bool read_value(std::string_view text, std::string& value) {
  value = text;
  return true;
}

bool read_value(std::string_view text, Every& value) {
  text = trimmed(text);
  Every read{.minutes = text.ends_with('m')};
  if (read.minutes) text.remove_suffix(1);
  if (!read_number(text, read.count)) return false;
  value = read;
  return true;
}

bool read_value(std::string_view text, Fp8Parts& value) {
  Fp8Parts read;
  if (bool all = false; read_value(text, all)) {
    for (const auto& name : Fp8Parts::names()) read.*name.part = all;
  } else {
    const auto items = split_commas(text);
    if (items.empty()) return false;
    for (const auto item : items) {
      const auto names = Fp8Parts::names();
      const auto* const found = std::ranges::find(names, trimmed(item), &Fp8Parts::Name::name);
      if (found == names.end()) return false;
      read.*found->part = true;
    }
  }
  value = read;
  return true;
}

bool read_value(std::string_view text, std::vector<std::int64_t>& values) {
  std::vector<std::int64_t> read;
  for (const auto part : split_commas(text)) {
    if (!read_value(part, read.emplace_back())) return false;
  }
  values = std::move(read);
  return true;
}

bool read_value(std::string_view text, std::vector<std::string>& values) {
  values.clear();
  for (const auto part : split_commas(text)) values.emplace_back(part);
  return true;
}

template <class T>
std::string value_text(const Schedule<T>& value) {
  std::string text = item_text(value.first());
  for (auto stage = value.stages().begin() + 1; stage != value.stages().end(); ++stage)
    text += fmt::format(",{}@{}", item_text(stage->value), item_text(stage->from));
  return text;
}

template <class T>
bool read_value(std::string_view text, Schedule<T>& value) {
  std::vector<typename Schedule<T>::Stage> stages;
  double last_share = 0, last_step = 0;
  for (const auto part : split_commas(text)) {
    auto& stage = stages.emplace_back();
    const auto at = part.find('@');
    const bool first = stages.size() == 1;
    if ((at == std::string_view::npos) != first) return false;
    if (!read_value(part.substr(0, at), stage.value)) return false;
    if (first) continue;
    if (!read_value(part.substr(at + 1), stage.from)) return false;
    auto& last = stage.is_share() ? last_share : last_step;
    const bool whole = stage.is_share() || stage.from == std::floor(stage.from);
    if (!whole || stage.from <= last) return false;
    last = stage.from;
  }
  if (stages.empty()) return false;
  value = Schedule<T>(std::move(stages));
  return true;
}

template std::string value_text(const CountSchedule& value);
template std::string value_text(const NumberSchedule& value);
template std::string value_text(const RampSchedule& value);
template bool read_value(std::string_view text, CountSchedule& value);
template bool read_value(std::string_view text, NumberSchedule& value);
template bool read_value(std::string_view text, RampSchedule& value);

std::string limit_text(const Limit& limit) {
  const bool has_low = std::isfinite(limit.low);
  const bool has_high = std::isfinite(limit.high);
  const std::string low = has_low ? item_text(limit.low) : "";
  const std::string high = has_high ? item_text(limit.high) : "";
  if (has_low && has_high) {
    return fmt::format(" in {}{}, {}{}", limit.low_open ? '(' : '[', low, high,
                       limit.high_open ? ')' : ']');
  }
  if (has_low) return (limit.low_open ? " above " : " of at least ") + low;
  if (has_high) return (limit.high_open ? " below " : " of at most ") + high;
  return "";
}

}  // namespace tg
