#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "data/text_bytes.h"
#include "data/token_source.h"

namespace tg {

// A split's first tokens on the device, and how many bytes of text each stands for, two bytes each
// (four of a sidecar, whose counts are larger), to be read again and again: a window of 2,048 at
// every 64 tokens reads each of them 32 times.
class SplitTokens {
 public:
  // predictions + 1 tokens, and zeros after them for a last window of `length`. `bytes` may be
  // null. `bos_id` begins a document, beyond which attention does not see; none: attention sees
  // all. Throws Error: bad_data, missing_input, io.
  SplitTokens(const TokenSource& source, std::int64_t predictions, std::int64_t length,
              const TextBytes* bytes, std::optional<std::int64_t> bos_id, at::Device device);

  std::int64_t predictions() const { return predictions_; }
  // Rows of `length` tokens, `stride` apart, from `begin` on → views [rows, length] uint16: what
  // the model reads, and the token after each.
  at::Tensor inputs(std::int64_t begin, std::int64_t rows, std::int64_t length,
                    std::int64_t stride) const;
  at::Tensor targets(std::int64_t begin, std::int64_t rows, std::int64_t length,
                     std::int64_t stride) const {
    return inputs(begin + 1, rows, length, stride);
  }
  // The tokens at these places of the split, int64 in the places' shape.
  at::Tensor gather(const at::Tensor& places) const;
  bool has_documents() const { return documents_.has_value(); }
  // Where in these inputs, one row after the other, attention's segments begin, and their end:
  // [segments + 1] int32 on the device, for which nothing waits; undefined without documents.
  at::Tensor segments(std::int64_t begin, std::int64_t rows, std::int64_t length,
                      std::int64_t stride) const;
  bool has_bytes() const { return bytes_.defined(); }
  // The bytes of these targets, [rows, length] int16 or int32.
  at::Tensor target_bytes(std::int64_t begin, std::int64_t rows, std::int64_t length,
                          std::int64_t stride) const;

 private:
  std::int64_t predictions_;
  at::Tensor tokens_;  // [predictions + 1 + length] uint16
  at::Tensor bytes_;   // [predictions] of the token after each; undefined where nothing counts
  std::optional<std::vector<std::int32_t>> documents_;  // where they begin, ascending
};

}  // namespace tg
