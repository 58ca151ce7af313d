#pragma once
// Reads ahead of the consumer. Workers take their places from the order one after the other, fill
// buffers side by side, and the consumer gets the batches in that same order: depth and number of
// workers change when a token is read, never which.
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch.h"

namespace tg {

struct PrefetchOptions {
  int queue = 2;    // micro-batches read ahead of the consumer
  int workers = 1;  // threads that read them
};

class PrefetchSource final : public BatchSource {
 public:
  // Begins to read at once. `allocate` is called queue times here, and for a batch that comes
  // empty.
  PrefetchSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout,
                 PrefetchOptions options, AllocateTokens allocate = allocate_on_heap);
  ~PrefetchSource() override;

  // Waits for the batch, and exchanges buffers with it. What a worker failed with is thrown here,
  // at the batch that it was reading and at every call after it, until restore().
  bool next(HostBatch& batch) override;
  LoaderState state() const override { return consumed_state_; }
  // Drops what was read ahead and goes on from `state`.
  void restore(const LoaderState& state) override;
  std::int64_t span_tokens() const override { return order_->span_tokens(); }

 private:
  // The place of one batch in the ring: ticket n uses slot n mod queue.
  struct Slot {
    HostBatch batch;
    bool ready = false;  // filled, or failed
    std::exception_ptr error;
  };

  void start();
  void stop();
  void work();
  Slot& slot(std::int64_t ticket) { return ring_[static_cast<std::size_t>(ticket) % ring_.size()]; }

  std::unique_ptr<TokenOrder> order_;  // guarded by mutex_ but for read()
  BatchLayout layout_;
  AllocateTokens allocate_;
  std::vector<Slot> ring_;
  std::size_t worker_count_;
  std::vector<std::thread> workers_;

  std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::int64_t next_ticket_ = 0;  // the next batch that a worker takes
  std::int64_t consumed_ = 0;     // batches handed out
  bool stopping_ = false;
  LoaderState consumed_state_;
};

// A source that reads ahead as `ahead` says, or, without it, when it is asked.
std::unique_ptr<BatchSource> make_source(std::unique_ptr<TokenOrder> order,
                                         const BatchLayout& layout,
                                         const std::optional<PrefetchOptions>& ahead,
                                         AllocateTokens allocate = allocate_on_heap);

}  // namespace tg
