#pragma once
#include <cstdint>

namespace tg {

// Token id of any vocabulary. Shards and batches store the ids of a vocabulary of at most 65,536
// in 16 bits (data/ids.h).
using TokenId = std::uint32_t;

// Largest number of a tokenizer's pieces, as of VOCAB_SIZE.
inline constexpr int kMaxPieces = 1 << 20;

}  // namespace tg
