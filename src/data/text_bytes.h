#pragma once
// What counts the bytes of text that the tokens of a validation split stand for, the denominator of
// bits per byte: a byte sidecar where there is one, else the tokenizer's table.
//
// A sidecar is the files PREFIX_val_bytes_*.bin beside the shards PREFIX_val_*.bin, one of each
// name. It has a shard's form: entry i is the number of UTF-8 bytes of the document, before CaseOps
// and before the tokenizer's normalisation, that token i stands for, 0 for BOS. White space that
// the tokenizer collapses counts in full, that which it strips at a document's ends nowhere.
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
  int bos_id = -1;                               // of the tokenizer; -1: unknown

  // Whether a token and the one before it tell the bytes.
  bool by_pairs() const { return !sidecar && table->by_pairs(); }
};

// The sidecar of the shards `tokens` as BYTE_COUNTS asks for it; null: none. Errors: missing_input
// (BYTE_COUNTS=sidecar and no such file); bad_data (a shard without its file or of another length).
std::shared_ptr<const TokenSource> open_sidecar(const DataConfig& data, const ShardSet& tokens);

// Checks the sidecar's entries, where there is one, for `tokens`, which begin at `begin` of the
// split. Errors: bad_data (BOS with bytes), those of reading.
void check_sidecar(const TextBytes& bytes, std::int64_t begin,
                   std::span<const std::uint16_t> tokens);

// The bytes of tokens [begin, begin + count) of the split. Errors: those of reading.
std::int64_t sidecar_bytes(const TokenSource& sidecar, std::int64_t begin, std::int64_t count);

}  // namespace tg
