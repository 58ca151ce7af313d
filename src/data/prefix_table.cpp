#include "data/prefix_table.h"

#include "base/error.h"
#include "config/types/text.h"
#include "data/vocabulary.h"
#include "files/json_file.h"
#include "text/longest_prefix.h"

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
  std::vector<std::string> pieces;
  std::vector<PieceKind> kinds;
  for (int id = 0; id < tokenizer.pieces(); ++id) {
    pieces.push_back(tokenizer.piece(id));
    kinds.push_back(tokenizer.kind(id));
  }
  return longest_prefixes(pieces, kinds);
}

}  // namespace

std::vector<std::int64_t> prefix_table(const Settings& settings) {
  const auto& path = settings.model.objective.prefix_table;
  auto table =
      path.empty() ? table_of_vocabulary(settings) : read_table(path, settings.model.vocab_size);
  table.resize(static_cast<std::size_t>(settings.model.vocab_size), -1);
  return table;
}

}  // namespace tg
