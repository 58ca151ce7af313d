#include "data/prefix_table.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "config/types/text.h"
#include "data/vocabulary.h"
#include "files/json_file.h"

namespace tg {
namespace {

std::vector<std::int64_t> read_table(const std::string& path, std::int64_t vocab_size) {
  const auto json = read_json_file(path);
  REQUIRE(json.is_array() && std::ssize(json) <= vocab_size, ExitCode::bad_data,
          "PREFIX_TABLE={}: expected a JSON list of at most VOCAB_SIZE={} ids, found {}", path,
          vocab_size, json.is_array() ? value_text(std::ssize(json)) : json.type_name());
  std::vector<std::int64_t> table;
  for (const auto& id : json) {
    REQUIRE(id.is_number_integer() && id >= -1 && id < vocab_size, ExitCode::bad_data,
            "PREFIX_TABLE={}: entry {}: expected an id below VOCAB_SIZE={} or -1, found {}", path,
            table.size(), vocab_size, id.dump());
    table.push_back(id);
  }
  return table;
}

std::vector<std::int64_t> table_of_vocabulary(const Settings& settings) {
  REQUIRE(!settings.data.tokenizer_path.empty(), ExitCode::config,
          "PREFIX_WEIGHT={} needs the vocabulary, but TOKENIZER_PATH is empty; set one of "
          "TOKENIZER_PATH and PREFIX_TABLE",
          value_text(settings.model.objective.prefix_weight));
  const auto tokenizer = make_tokenizer(settings.data, static_cast<int>(settings.model.vocab_size));
  return longest_prefixes(tokenizer.model().pieces(), tokenizer.model().kinds());
}

}  // namespace

std::vector<std::int64_t> prefix_table(const Settings& settings) {
  const auto& path = settings.model.objective.prefix_table;
  auto table =
      path.empty() ? table_of_vocabulary(settings) : read_table(path, settings.model.vocab_size);
  table.resize(static_cast<std::size_t>(settings.model.vocab_size), -1);
  return table;
}

std::vector<std::int64_t> longest_prefixes(std::span<const std::string> pieces,
                                           std::span<const PieceKind> kinds) {
  std::vector<std::size_t> sorted;
  for (std::size_t id = 0; id < pieces.size(); ++id)
    if (kinds[id] == PieceKind::normal) sorted.push_back(id);
  // By unsigned bytes: a prefix precedes its extensions, and only they lie between them.
  std::ranges::sort(sorted, {}, [&](std::size_t id) { return std::string_view(pieces[id]); });
  std::vector<std::int64_t> found(pieces.size(), -1);
  std::vector<std::size_t> open;  // prefixes of the piece before, each a prefix of the next
  for (const auto id : sorted) {
    const std::string_view piece = pieces[id];
    while (!open.empty() &&
           (pieces[open.back()].size() == piece.size() || !piece.starts_with(pieces[open.back()])))
      open.pop_back();
    if (!open.empty()) found[id] = static_cast<std::int64_t>(open.back());
    open.push_back(id);
  }
  return found;
}

}  // namespace tg
