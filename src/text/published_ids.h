#pragma once
#include <optional>
#include <string>
#include <vector>

namespace tg {

// The ids of a merge list's pieces, as the JSON file beside it has them.
struct PublishedIds {
  std::string path;
  std::vector<std::string> spelled;  // by id, as they are written there; empty: no piece's
};

// Reads vocab.json beside merges.txt, or encoder.json beside vocab.bpe, with what comes before in
// the name; nothing where there is no such file. Errors: bad_data (no object of pieces and ids, an
// id again), config (ids do not fit 16 bits), io.
std::optional<PublishedIds> find_published_ids(const std::string& merges);

}  // namespace tg
