#include "text/longest_prefix.h"

#include <algorithm>
#include <string_view>

namespace tg {

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
