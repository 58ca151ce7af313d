#pragma once
// What a data source hands to the trainer: micro-batches in host memory. Shapes: a micro-batch of B
// sequences of T is B * T + 1 tokens; inputs x are all but the last, targets y all but the first.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/span_log.h"
#include "data/byte_count.h"
#include "data/token_order.h"

namespace tg {

// Host memory for tokens; the deleter knows how it was allocated (heap here, pinned on a GPU).
using TokenBuffer = std::unique_ptr<std::uint16_t[], std::function<void(std::uint16_t*)>>;
using AllocateTokens = std::function<TokenBuffer(std::int64_t tokens)>;

TokenBuffer allocate_on_heap(std::int64_t tokens);

// The batch owns its buffer until it is given to next() again, which may exchange the buffer for
// another one: so a source can fill buffers ahead, and whoever copies from one asynchronously keeps
// the batch aside until the copy is done.
struct HostBatch {
  TokenBuffer buffer;           // empty before the first next()
  std::int64_t tokens = 0;      // B * T + 1; 0: this rank has no micro-batch in this round
  std::int64_t seq_len = 0;     // T
  std::int64_t text_bytes = 0;  // that the targets stand for, where the layout asks for it
  std::int64_t number = 0;      // of this source's rounds, from 0
  LoaderState after;            // where the consumer stands once it has used this batch

  // [B * T] each, one overlapping the other by all but one token.
  std::span<const std::uint16_t> inputs() const { return part(0); }
  std::span<const std::uint16_t> targets() const { return part(1); }

 private:
  std::span<const std::uint16_t> part(std::int64_t first) const {
    if (tokens == 0) return {};
    return {buffer.get() + first, static_cast<std::size_t>(tokens - 1)};
  }
};

// What is done with the tokens of every batch as they are read, in the reader's thread.
struct BatchLayout {
  std::int64_t seq_len;              // T
  const ByteTable* bytes = nullptr;  // counts the targets' bytes; outlives the source
  SpanLog* spans = nullptr;          // told of every read; outlives the source
};

// Reads the micro-batch at `place` into the batch's buffer, which has room for it; any thread.
void fill(const TokenOrder& order, const std::optional<Place>& place, const BatchLayout& layout,
          HostBatch& batch);

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The next round. A batch that comes with a buffer must have got it from this source (or from its
  // allocator). False: no micro-batch for this rank in this round; tokens is 0, `after` is set.
  // Errors: those of reading (bad_data, missing_input, io).
  virtual bool next(HostBatch& batch) = 0;
  virtual LoaderState state() const = 0;  // `after` of the last batch handed out
  virtual void restore(const LoaderState& state) = 0;
  virtual std::int64_t span_tokens() const = 0;  // capacity of every buffer, in tokens
};

// Reads when it is asked, into the batch's own buffer.
class OrderedSource final : public BatchSource {
 public:
  OrderedSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout,
                AllocateTokens allocate = allocate_on_heap);

  bool next(HostBatch& batch) override;
  LoaderState state() const override { return order_->state(); }
  void restore(const LoaderState& state) override { order_->restore(state); }
  std::int64_t span_tokens() const override { return order_->span_tokens(); }

 private:
  std::unique_ptr<TokenOrder> order_;
  BatchLayout layout_;
  AllocateTokens allocate_;
  std::int64_t rounds_ = 0;
};

}  // namespace tg
