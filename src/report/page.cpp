#include "report/page.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "bands.h"
#include "base/strings.h"
#include "chart.h"
#include "compare.h"
#include "elements.h"
#include "facts.h"
#include "layout.h"
#include "live.h"
#include "numbers.h"
#include "pictures.h"
#include "scales.h"
#include "series.h"
#include "start.h"
#include "style.h"
#include "tables.h"

namespace tg {
namespace {

using nlohmann::json;

// Replaces each character by its text. The texts hold no character that is replaced after it.
std::string escaped(std::string text, const auto& texts_by_character) {
  for (const auto& [character, with] : texts_by_character) text = replaced(text, character, with);
  return text;
}

// Returns JSON that is safe in a <script>: without "<", which could end the element; ASCII, so
// without U+2028 and U+2029.
std::string script_json(const json& value) {
  constexpr std::pair<const char*, const char*> texts[] = {
      {"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}};
  return escaped(value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace), texts);
}

std::string html_text(const std::string& text) {
  constexpr std::pair<const char*, const char*> texts[] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}};
  return escaped(text, texts);
}

std::string title_of(const json& runs) {
  std::string names;
  for (const auto& run : runs) {
    names += (names.empty() ? "" : ", ") + run["name"].get<std::string>();
  }
  constexpr std::size_t kMaxLength = 200;
  if (runs.empty()) return "train_gpt";
  return "train_gpt: " +
         (names.size() > kMaxLength ? std::to_string(runs.size()) + " runs" : names);
}

std::string script() {
  std::string text = "(() => {\n\"use strict\";\n";
  // Order of dependencies: a file uses earlier files.
  for (const char* file : {k_elements, k_numbers, k_scales, k_series, k_chart, k_bands, k_pictures,
                           k_tables, k_compare, k_facts, k_start, k_live}) {
    text += file;
  }
  return text + "})();\n";
}

// `content`: JSON that the script reads; `connect`: sources that the Content-Security-Policy
// allows.
std::string page_of(const json& runs, const json& content, const char* connect) {
  const std::pair<std::string_view, std::string> parts[] = {
      {"{{connect}}", connect},
      {"{{title}}", html_text(title_of(runs))},
      {"{{style}}", k_style},
      {"{{runs}}", script_json(content)},
      {"{{script}}", script()}};
  std::string page;
  std::string_view rest = k_layout;
  for (const auto& [marker, text] : parts) {  // in the order of the layout's markers
    const auto at = rest.find(marker);
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + marker.size());
  }
  return page += rest;
}

}  // namespace

std::string report_page(const json& runs) {
  return page_of(runs, runs, "'none'");
}

std::string live_report_page(const json& state) {
  return page_of(state["runs"], state, "'self'");
}

}  // namespace tg
