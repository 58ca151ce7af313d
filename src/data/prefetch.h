#pragma once
// Reads ahead of the consumer. Workers take places from the order one at a time, under a lock, and
// read concurrently; the consumer receives the batches in that order. Queue depth and number of
// workers affect when tokens are read, never which.
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
  // Starts reading. Calls `allocate` once per slot of the queue, in next() for a batch without a
  // buffer, and in the workers for a batch with more segments than its buffer can hold.
  PrefetchSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout,
                 PrefetchOptions options, AllocateBatch allocate = allocate_on_heap);
  ~PrefetchSource() override { stop(); }

  // Blocks until the batch is read and exchanges buffers with it. Rethrows a worker's exception at
  // the batch that it was reading, and at every later call until restore().
  bool next(HostBatch& batch) override;
  LoaderState state() const override { return consumed_state_; }
  // Drops the batches read ahead and continues from `state`.
  void restore(const LoaderState& state) override;
  // Drops the batches read ahead, which have the old shape.
  void reshape(const BatchShape& shape) override;

 private:
  // Entry of the ring: batch n uses slot n mod queue.
  struct Slot {
    HostBatch batch;
    bool ready = false;  // filled, or failed
    std::exception_ptr error;
  };

  void start();
  void stop();
  void work();
  Slot& slot(std::int64_t batch_index) {
    return ring_[static_cast<std::size_t>(batch_index) % ring_.size()];
  }

  std::vector<Slot> ring_;
  std::size_t worker_count_;
  std::vector<std::thread> workers_;

  std::mutex mutex_;  // guards also order_, except read()
  std::condition_variable room_, filled_;
  std::int64_t next_to_read_ = 0;  // the batch that the next free worker takes
  std::int64_t consumed_ = 0;      // batches that next() has returned
  bool stopping_ = false;
  LoaderState consumed_state_;
};

// Returns a PrefetchSource with the options `ahead`, or, without options, an OrderedSource.
std::unique_ptr<BatchSource> make_source(std::unique_ptr<TokenOrder> order,
                                         const BatchLayout& layout,
                                         const std::optional<PrefetchOptions>& ahead,
                                         AllocateBatch allocate = allocate_on_heap);

}  // namespace tg
