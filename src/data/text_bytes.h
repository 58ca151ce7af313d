#pragma once
// Counts the bytes of text that the tokens of a validation split stand for, the denominator of bits
// per byte: from a byte sidecar if there is one, else from the tokenizer's table.
//
// A sidecar is the files PREFIX_val_bytes_*.bin next to the shards PREFIX_val_*.bin, one for each
// name. It has a shard's format: entry i is the number of UTF-8 bytes of the document, before
// CaseOps and before the tokenizer's normalization, that token i stands for, 0 for BOS. White space
// that the tokenizer collapses counts in full; white space that it strips at a document's ends is
// not counted.
#include <memory>
#include <optional>
#include <span>

#include "config/data_config.h"
#include "data/byte_count.h"
#include "data/shard.h"
#include "data/token_source.h"

namespace tg {

struct TextBytes {
  std::optional<ByteTable> table{};              // absent without a tokenizer
  std::shared_ptr<const TokenSource> sidecar{};  // null: the table counts
  int bos_id = -1;                               // the tokenizer's; -1: unknown

  // Returns whether a token and its predecessor determine the bytes.
  bool by_pairs() const { return !sidecar && table->by_pairs(); }
};

// Returns the sidecar of the shards `tokens` that BYTE_COUNTS selects; null: none. Throws
// Error(missing_input) if BYTE_COUNTS=sidecar and there is no such file, and Error(bad_data) for a
// shard without its file or with one of another length.
std::shared_ptr<const TokenSource> open_sidecar(const DataConfig& data, const ShardSet& tokens);

// Checks the sidecar's entries, if there is a sidecar, for `tokens`, which begin at `begin` of the
// split. Throws Error(bad_data) if BOS has bytes, and what reading throws.
void check_sidecar(const TextBytes& bytes, std::int64_t begin, std::span<const TokenId> tokens);

// Returns the bytes of tokens [begin, begin + count) of the split. Throws what reading throws.
std::int64_t sidecar_bytes(const TokenSource& sidecar, std::int64_t begin, std::int64_t count);

}  // namespace tg
