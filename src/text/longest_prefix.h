#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer_model.h"

namespace tg {

// Returns for each piece of a vocabulary the id of its longest proper prefix that is a normal piece
// too, in bytes; −1 where there is none, and for pieces that are not normal.
std::vector<std::int64_t> longest_prefixes(std::span<const std::string> pieces,
                                           std::span<const PieceKind> kinds);

}  // namespace tg
