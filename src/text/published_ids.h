#pragma once
#include <optional>
#include <string>
#include <vector>

namespace tg {

// Ids of a merge list's pieces, from the JSON file in the same folder.
struct PublishedIds {
  std::string path;
  std::vector<std::string> spelled;  // by id, in GPT-2's spelling; empty: no piece
};

// Reads vocab.json for merges.txt, or encoder.json for vocab.bpe, in the same folder and with the
// same file name prefix; returns nullopt if there is no such file. Throws Error(bad_data) if it is
// no object of pieces and ids or repeats an id, Error(io), and what require_id() throws.
std::optional<PublishedIds> find_published_ids(const std::string& merges);

}  // namespace tg
