#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <span>
#include <vector>

#include "data/text_bytes.h"
#include "data/token_source.h"
#include "eval/scores/document_batches.h"

namespace tg {

// Views the ids of a contiguous tensor in host memory, uint16 or uint32.
Ids ids_of(const at::Tensor& tokens);
// The dtype of ids of this width, 2 or 4 bytes.
at::ScalarType id_dtype(int id_bytes);

// Rows of documents, padded to one length T; predictions are at their last S positions.
struct PaddedRows {
  at::Tensor inputs;   // [B, T] int64, zeros after a row's tokens
  at::Tensor targets;  // [B, S] int64, zeros after a row's tokens
  at::Tensor places;   // [B, S] int64: indices in the split of the inputs at these positions
  at::Tensor scored;   // [B, S] bool
};

// The first tokens of a split on the device, and the number of text bytes of each: the source's
// id_bytes() per token and 2 per byte count (4 with a sidecar, whose counts are larger). They are
// read repeatedly: windows of 2,048 tokens at a stride of 64 read each token 32 times.
class SplitTokens {
 public:
  // Reads predictions + 1 tokens, followed by zeros for a last window of `length`. `bytes` may be
  // null. `bos_id` begins a document, which attention does not cross; nullopt: attention crosses
  // documents. Throws errors of reading (bad_data, missing_input, io).
  SplitTokens(const TokenSource& source, std::int64_t predictions, std::int64_t length,
              const TextBytes* bytes, std::optional<std::int64_t> bos_id, at::Device device);

  std::int64_t predictions() const { return predictions_; }
  // Rows of `length` tokens, `stride` apart, from `begin` on, as views [rows, length] of
  // id_dtype(): the inputs, and the next token of each.
  at::Tensor inputs(std::int64_t begin, std::int64_t rows, std::int64_t length,
                    std::int64_t stride) const;
  at::Tensor targets(std::int64_t begin, std::int64_t rows, std::int64_t length,
                     std::int64_t stride) const {
    return inputs(begin + 1, rows, length, stride);
  }
  // The tokens at these indices of the split, int64 in the shape of `places`.
  at::Tensor gather(const at::Tensor& places) const;
  // Pads rows that begin at index `start` of the split to T = `length` tokens and S = `predicted`
  // predictions, without synchronization.
  PaddedRows padded(std::span<const ChunkWindow> rows, std::int64_t length,
                    std::int64_t predicted) const;
  bool has_documents() const { return documents_.has_value(); }
  // Offsets at which attention's segments begin in these inputs, concatenated row by row, and the
  // end of the last one: [segments + 1] int32 on the device, without synchronization; undefined
  // without documents.
  at::Tensor segments(std::int64_t begin, std::int64_t rows, std::int64_t length,
                      std::int64_t stride) const;
  bool has_bytes() const { return bytes_.defined(); }
  // Text bytes of these targets, [rows, length] int16 or int32.
  at::Tensor target_bytes(std::int64_t begin, std::int64_t rows, std::int64_t length,
                          std::int64_t stride) const;

 private:
  std::int64_t predictions_;
  at::Tensor tokens_;  // [predictions + 1 + length] of id_dtype()
  at::Tensor bytes_;   // [predictions], of the token after each; undefined without byte counts
  std::optional<std::vector<std::int32_t>> documents_;  // where documents begin, ascending
};

}  // namespace tg
