// A vocabulary in hexadecimal: what is read of one has pairs.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/validation_mask.h"
#include "tests/fuzz/target.h"
#include "text/noncanonical_pairs.h"

namespace tg::fuzz {

std::vector<std::string> seeds() {
  nlohmann::json ids = {{"6162", 256}, {"616263", 257}, {"2773", 258}, {"2020", 259}};
  for (int byte = 0; byte < 256; ++byte)
    ids[std::string{"0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]}] = byte;
  return {ids.dump()};
}

void read(std::string_view bytes) {
  constexpr std::int64_t kVocab = 300;
  static ScratchFile file;
  file.put(bytes);
  const auto pieces = read_hex_vocabulary(file.path(), kVocab);
  const auto table = noncanonical_pairs(pieces, kVocab);
  if (pieces.size() < 256 || table.size() != kVocab * ((kVocab + 7) / 8)) std::abort();
}

}  // namespace tg::fuzz
