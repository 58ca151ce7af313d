#pragma once
// Micro-batches in host memory, and the sources that read them. A micro-batch of B sequences of T
// tokens is B * T + 1 tokens: the inputs x are all but the last, the targets y all but the first.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/span_log.h"
#include "config/batch_shape.h"
#include "data/segments.h"
#include "data/text_bytes.h"
#include "data/token_order.h"

namespace tg {

// Host memory for tokens, with the deleter of its allocator (heap here, pinned for a GPU).
using TokenBuffer = std::unique_ptr<std::uint16_t[], std::function<void(std::uint16_t*)>>;
using AllocateTokens = std::function<TokenBuffer(std::int64_t tokens)>;

TokenBuffer allocate_on_heap(std::int64_t tokens);

// The batch owns its buffer until it is passed to next() again, which may exchange it for another
// one. So a source can fill buffers ahead, and a caller that copies from one asynchronously must
// not pass the batch to next() before the copy is done.
struct HostBatch {
  TokenBuffer buffer;                 // empty before the first next()
  std::int64_t tokens = 0;            // B * T + 1; 0: this rank has no micro-batch in this round
  std::int64_t seq_len = 0;           // T
  std::int64_t text_bytes = 0;        // of text in the targets, if the layout counts them
  std::int64_t batch_index = 0;       // round of this source, from 0
  LoaderState after;                  // to resume behind this batch
  std::int64_t segments = 0;          // of the inputs, if the layout has a rule
  std::int64_t longest_segment = 0;   // that its rule allows
  std::int64_t segment_capacity = 0;  // those that the buffer has room for; 0: without a rule

  // [B * T] each, views of the buffer that overlap in all but one token.
  std::span<const std::uint16_t> inputs() const { return part(0); }
  std::span<const std::uint16_t> targets() const { return part(1); }

  // Behind the tokens the buffer has segment_capacity + 1 int32: where each segment begins, its
  // end, B * T, and more of that, as of empty segments. From this place on, in uint16:
  std::int64_t boundaries_begin() const { return tokens + tokens % 2; }
  // How many uint16 of the buffer are in use, and of one that is full.
  std::int64_t stored() const { return stored(tokens, segment_capacity); }
  static std::int64_t stored(std::int64_t tokens, std::int64_t segment_capacity) {
    return segment_capacity == 0 ? tokens : tokens + tokens % 2 + 2 * (segment_capacity + 1);
  }

 private:
  std::span<const std::uint16_t> part(std::int64_t first) const {
    if (tokens == 0) return {};
    return {buffer.get() + first, static_cast<std::size_t>(tokens - 1)};
  }
};

// How fill() reads a batch.
struct BatchLayout {
  std::int64_t seq_len;                   // T; 0: each batch is one row
  const TextBytes* bytes = nullptr;       // counts the targets' bytes; outlives the source
  std::optional<SegmentRule> segments{};  // finds the inputs' segments
  SpanLog* spans = nullptr;               // receives a span per read; outlives the source
};

// Gives a batch that has no buffer one for the order's largest micro-batch.
void require_buffer(const TokenOrder& order, const BatchLayout& layout,
                    const AllocateTokens& allocate, HostBatch& batch);
// Reads the micro-batch at `place` into the batch's buffer, which has room for its tokens; one
// without room for its segments is replaced. Without a place sets tokens to 0. Thread-safe for
// different batches.
void fill(const TokenOrder& order, const std::optional<Place>& place, const BatchLayout& layout,
          const AllocateTokens& allocate, HostBatch& batch);

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The next round. If the batch has a buffer, it is from this source or its allocator. False: this
  // rank has no micro-batch in this round; tokens is 0, `after` is set.
  // Errors: those of reading (bad_data, missing_input, io).
  virtual bool next(HostBatch& batch) = 0;
  virtual LoaderState state() const = 0;  // `after` of the last batch that next() returned
  virtual void restore(const LoaderState& state) = 0;
  // Between two steps: batches have another shape from now on. See TokenOrder::resize().
  virtual void reshape(const BatchShape& shape) = 0;
  virtual std::int64_t span_tokens() const = 0;  // tokens that every buffer has room for
};

// Reads synchronously in next(), into the batch's own buffer.
class OrderedSource final : public BatchSource {
 public:
  OrderedSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout,
                AllocateTokens allocate = allocate_on_heap);

  bool next(HostBatch& batch) override;
  LoaderState state() const override { return order_->state(); }
  void restore(const LoaderState& state) override { order_->restore(state); }
  void reshape(const BatchShape& shape) override;
  std::int64_t span_tokens() const override { return order_->span_tokens(); }

 private:
  std::unique_ptr<TokenOrder> order_;
  BatchLayout layout_;
  AllocateTokens allocate_;
  std::int64_t rounds_ = 0;
};

}  // namespace tg
