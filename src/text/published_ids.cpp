#include "text/published_ids.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/escaped.h"
#include "files/file.h"
#include "files/json_file.h"
#include "text/bpe_vocabulary.h"

namespace tg {
namespace {

constexpr std::int64_t kMaxFileBytes = 16 << 20;

constexpr struct {
  std::string_view merges, ids;
} kNames[] = {{"merges.txt", "vocab.json"}, {"vocab.bpe", "encoder.json"}};

}  // namespace

std::optional<PublishedIds> find_published_ids(const std::string& merges) {
  const auto* const name =
      std::ranges::find_if(kNames, [&](const auto& one) { return merges.ends_with(one.merges); });
  if (name == std::end(kNames)) return {};
  const auto path = merges.substr(0, merges.size() - name->merges.size()).append(name->ids);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const auto json = parse_json(read_whole_file(path, kMaxFileBytes));
  REQUIRE(
      json && json->is_object(), ExitCode::bad_data,
      "{} beside {}: expected a JSON object of pieces and their ids, found something else; copy "
      "it again",
      path, merges);
  PublishedIds published{.path = path, .spelled = {}};
  for (const auto& [piece, value] : json->items()) {
    REQUIRE(value.is_number_unsigned() && !piece.empty(), ExitCode::bad_data,
            "{}: \"{}\" is no piece with an id (expected a number from 0 on, found {}); copy it "
            "again",
            path, escaped(piece, 40), value.type_name());
    const auto id = value.get<std::uint64_t>();
    require_id(id, piece, json->size(), path);
    if (id >= published.spelled.size()) published.spelled.resize(id + 1);
    auto& place = published.spelled[id];
    REQUIRE(place.empty(), ExitCode::bad_data,
            "{}: \"{}\" and \"{}\" have the id {} (expected one piece); copy it again", path,
            escaped(place, 40), escaped(piece, 40), id);
    place = piece;
  }
  return published;
}

}  // namespace tg
