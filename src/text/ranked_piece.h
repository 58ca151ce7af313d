#pragma once
#include <cstdint>
#include <string>

#include "text/token_id.h"

namespace tg {

// A piece of a byte-level BPE that merges make of its bytes.
struct RankedPiece {
  std::string bytes;  // at least one
  TokenId id = 0;
  std::uint32_t rank = 0;  // merges of lower rank come first; of a single byte it has no meaning
};

}  // namespace tg
