#pragma once
// Orders in which a rank reads the tokens of a source, one micro-batch per round.
//   stream     a step is M consecutive micro-batches of L + 1 tokens of the stream; rank j mod W
//              reads micro-batch j. A step's tokens do not depend on W.
//   strided    rank r starts at r * B * T of each shard, reads B * T + 1 tokens, advances by
//              B * T * W.
//   documents  like stream, but each shard begins at its first document, and its last tokens, too
//              few for a whole round, are dropped (data/documents_order.h).
//   aligned    a micro-batch is a row of beginnings of documents (data/aligned_order.h).
//   listed     a given list of places; used by validation.
// A round is one call of advance() or next() on every rank. Not thread-safe, except read().
#include <cstdint>
#include <optional>
#include <vector>

#include "config/batch_shape.h"
#include "data/token_source.h"

namespace tg {

// Position to resume from: after the last consumed batch, ignoring batches read ahead. Equal on all
// ranks.
struct LoaderState {
  // stream, documents, aligned: stream position of all ranks together, before wrapping.
  std::int64_t token_offset = 0;
  // stream, documents, aligned: micro-batches of the unfinished step before the position, 0 between
  // steps. strided: rounds since the beginning or since the last change of the micro-batch size,
  // which was at token_offset of the stream; each rank's own position follows from both.
  std::int64_t micro_batches = 0;

  bool operator==(const LoaderState&) const = default;
};

// Consecutive tokens of the source's stream.
struct TokenSpan {
  std::int64_t begin = 0, tokens = 0;
};

// Location of a micro-batch: its tokens are the concatenation of the spans, inputs + 1 in all.
struct Place {
  std::vector<TokenSpan> spans;
  std::int64_t tokens() const;
};

class TokenOrder {
 public:
  explicit TokenOrder(const TokenSource& source) : source_(source) {}
  virtual ~TokenOrder() = default;

  // Advances by one round and returns this rank's micro-batch; nullopt if it has none in this
  // round. Cheap: the workers of a PrefetchSource call it under their lock. Throws, if the order
  // depends on tokens, what reading throws; the order is then unchanged.
  virtual std::optional<Place> advance() = 0;
  virtual LoaderState state() const = 0;
  // Throws Error(config) for a state that this order cannot have, and what reading throws.
  virtual void restore(const LoaderState& state) = 0;
  virtual std::int64_t span_tokens() const = 0;  // largest micro-batch: inputs + 1
  // Changes the shape of later micro-batches; only between two steps. Precondition: they have at
  // most as many tokens as the constructor's.
  virtual void reshape(const BatchShape& shape);

  int id_bytes() const { return source_.id_bytes(); }
  // Reads as many tokens as `out` has from `begin`, in a place that advance() returned.
  // Thread-safe.
  virtual void read(std::int64_t begin, const MutableIds& out) const {
    source_.read_at(begin, out);
  }

 protected:
  const TokenSource& source_;  // must outlive the order
};

class StreamOrder final : public TokenOrder {
 public:
  // micro_batch_tokens: maximum of L; micro_batches: M per step, of all ranks.
  StreamOrder(const TokenSource& source, std::int64_t micro_batch_tokens,
              std::int64_t micro_batches, int rank, int world_size);

  std::optional<Place> advance() override;
  LoaderState state() const override {
    return {.token_offset = step_begin_ + dealt_ * span_, .micro_batches = dealt_};
  }
  void restore(const LoaderState& state) override;
  std::int64_t span_tokens() const override { return longest_; }
  void reshape(const BatchShape& shape) override;

 private:
  const std::int64_t longest_;  // maximum of L + 1
  std::int64_t span_;           // L + 1
  std::int64_t micro_batches_;  // M
  std::int64_t rank_, world_size_;
  std::int64_t step_begin_ = 0;  // stream position of the current step
  std::int64_t dealt_ = 0;       // micro-batches of the step that were dealt in past rounds
};

class StridedOrder final : public TokenOrder {
 public:
  // micro_batch_tokens: maximum of B * T. repeat_first: b0, b0, b1, … instead of b0, b1, … Throws
  // Error(bad_data) for a shard with fewer than B * T * W + 1 tokens.
  StridedOrder(const TokenSource& source, std::int64_t micro_batch_tokens, int rank, int world_size,
               bool repeat_first);

  std::optional<Place> advance() override;
  LoaderState state() const override { return {.token_offset = base_, .micro_batches = rounds_}; }
  void restore(const LoaderState& state) override;
  std::int64_t span_tokens() const override { return longest_; }
  // All ranks continue at rank 0's position, after everything read so far; only a rank that is
  // already in the next shard rereads some tokens.
  void reshape(const BatchShape& shape) override;

  // Returns the number of reads of this rank in one pass over all shards, without a repeated first
  // read.
  std::int64_t reads_per_pass() const { return reads_per_pass(rank_); }

 private:
  // Position common to all ranks: rank r reads at `begin` + r * B * T of the shard.
  struct Round {
    int shard = 0;
    std::int64_t begin = 0;
  };
  Round base() const;
  // Returns the position of `rank` after `reads` reads from base_ on.
  Round after(std::int64_t reads, std::int64_t rank) const;
  // Returns the number of reads of the rank from that position to the end of the shard.
  std::int64_t reads_from(const Round& round, std::int64_t rank) const;
  std::int64_t reads_per_pass(std::int64_t rank) const;
  bool repeats() const { return repeat_first_ && base_ == 0; }
  // Returns the reads so far without the repeated one.
  std::int64_t reads() const { return repeats() && rounds_ > 0 ? rounds_ - 1 : rounds_; }

  const std::int64_t longest_;  // maximum of B * T + 1
  std::int64_t stride_;         // B * T
  std::int64_t rank_, world_size_;
  bool repeat_first_;
  std::int64_t base_ = 0;  // stream position at which reading with this stride began
  std::int64_t rounds_ = 0;
  Round next_;  // this rank's next read
};

// Cycles through the listed spans, one micro-batch each, for `count` rounds; later rounds have
// none.
class ListedOrder final : public TokenOrder {
 public:
  ListedOrder(const TokenSource& source, std::vector<TokenSpan> places, std::int64_t count);

  std::optional<Place> advance() override;
  // micro_batches: rounds so far.
  LoaderState state() const override { return {.micro_batches = next_}; }
  void restore(const LoaderState& state) override { next_ = state.micro_batches; }
  std::int64_t span_tokens() const override { return longest_; }

 private:
  std::vector<TokenSpan> places_;
  std::int64_t count_;
  std::int64_t longest_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace tg
