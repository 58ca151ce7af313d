#pragma once
// Micro-batches in host memory, and the sources that read them. A micro-batch of B sequences of T
// tokens has B * T + 1 tokens: the inputs x are all but the last, the targets y all but the first.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/span_log.h"
#include "config/batch_shape.h"
#include "data/segments.h"
#include "data/text_bytes.h"
#include "data/token_order.h"

namespace tg {

// Host memory for a batch, with the deleter of its allocator (heap, or pinned for a GPU).
using BatchBuffer = std::unique_ptr<std::byte[], std::function<void(std::byte*)>>;
using AllocateBatch = std::function<BatchBuffer(std::int64_t bytes)>;

BatchBuffer allocate_on_heap(std::int64_t bytes);

// Micro-batch in a host buffer. next() may exchange the buffer of the batch that it is passed, so
// that a source can fill buffers ahead; a caller that copies from a batch asynchronously must not
// pass it to next() before the copy is done.
struct HostBatch {
  BatchBuffer buffer;                 // empty before the first next()
  int id_bytes = 0;                   // of a token in the buffer, 2 or 4
  std::int64_t tokens = 0;            // B * T + 1; 0: no micro-batch for this rank
  std::int64_t seq_len = 0;           // T
  std::int64_t text_bytes = 0;        // bytes of the targets' text, if the layout counts them
  std::int64_t batch_index = 0;       // round of this source, from 0
  LoaderState after;                  // state to resume from after this batch
  std::int64_t segments = 0;          // in the inputs, if the layout has a rule
  std::int64_t longest_segment = 0;   // upper bound of the rule, tokens
  std::int64_t segment_capacity = 0;  // segments that the buffer can hold; 0: no rule

  // [B * T] each; overlapping views of the buffer.
  Ids inputs() const { return part(0); }
  Ids targets() const { return part(1); }

  // Byte offset of the segment boundaries: segment_capacity + 1 int32, aligned, after the tokens.
  // They are the beginning of each segment, then B * T, repeated to the end (empty segments).
  std::int64_t boundaries_begin() const { return aligned(tokens * id_bytes); }
  // Bytes of the buffer in use; the static overload gives them for any sizes.
  std::int64_t stored() const { return stored(tokens * id_bytes, segment_capacity); }
  static std::int64_t stored(std::int64_t token_bytes, std::int64_t segment_capacity) {
    if (segment_capacity == 0) return token_bytes;
    return aligned(token_bytes) + kBoundaryBytes * (segment_capacity + 1);
  }

 private:
  static constexpr std::int64_t kBoundaryBytes = sizeof(std::int32_t);
  static std::int64_t aligned(std::int64_t bytes) {
    return (bytes + kBoundaryBytes - 1) / kBoundaryBytes * kBoundaryBytes;
  }
  Ids part(std::int64_t first) const {
    const std::byte* const begin = buffer.get() + first * id_bytes;
    return ids_at(begin, std::max<std::int64_t>(tokens - 1, 0), id_bytes);
  }
};

// Describes how fill() reads a batch.
struct BatchLayout {
  std::int64_t seq_len;                   // T; 0: each batch is one row
  const TextBytes* bytes = nullptr;       // counts the targets' bytes; must outlive the source
  std::optional<SegmentRule> segments{};  // finds the inputs' segments
  SpanLog* spans = nullptr;               // receives a span per read; must outlive the source

  void take(const BatchShape& shape) {
    seq_len = shape.seq_len;
    if (segments) segments->limit = shape.segment_limit;
  }
};

// Allocates a buffer for the order's largest micro-batch if the batch has none.
void require_buffer(const TokenOrder& order, const BatchLayout& layout,
                    const AllocateBatch& allocate, HostBatch& batch);
// Reads the micro-batch at `place` into the batch's buffer, which has room for its tokens; replaces
// the buffer if it has no room for the segments. Without a place sets tokens to 0. Thread-safe for
// different batches.
void fill(const TokenOrder& order, const std::optional<Place>& place, const BatchLayout& layout,
          const AllocateBatch& allocate, HostBatch& batch);

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Reads the next round. If the batch has a buffer, it must be from this source or its allocator.
  // Returns false if this rank has no micro-batch in the round; tokens is then 0, and `after` is
  // set. Throws what reading throws (bad_data, missing_input, io).
  virtual bool next(HostBatch& batch) = 0;
  virtual LoaderState state() const = 0;  // `after` of the last batch that next() returned
  virtual void restore(const LoaderState& state) = 0;
  // Changes the shape of later batches; only between two steps. See TokenOrder::reshape().
  virtual void reshape(const BatchShape& shape) = 0;
  std::int64_t span_tokens() const { return order_->span_tokens(); }  // that every buffer can hold

 protected:
  BatchSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout, AllocateBatch allocate)
      : order_(std::move(order)), layout_(layout), allocate_(std::move(allocate)) {}

  std::unique_ptr<TokenOrder> order_;
  BatchLayout layout_;
  AllocateBatch allocate_;
};

// Reads synchronously in next(), into the batch's own buffer.
class OrderedSource final : public BatchSource {
 public:
  OrderedSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout,
                AllocateBatch allocate = allocate_on_heap)
      : BatchSource(std::move(order), layout, std::move(allocate)) {}

  bool next(HostBatch& batch) override;
  LoaderState state() const override { return order_->state(); }
  void restore(const LoaderState& state) override { order_->restore(state); }
  void reshape(const BatchShape& shape) override {
    order_->reshape(shape);
    layout_.take(shape);
  }

 private:
  std::int64_t rounds_ = 0;
};

}  // namespace tg
