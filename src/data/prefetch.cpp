#include "data/prefetch.h"

#include <cassert>
#include <utility>

namespace tg {
namespace {

// Returns the exception that `work` throws; null: none.
std::exception_ptr error_of(auto&& work) {
  try {
    work();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

PrefetchSource::PrefetchSource(std::unique_ptr<TokenOrder> order, const BatchLayout& layout,
                               PrefetchOptions options, AllocateBatch allocate)
    : BatchSource(std::move(order), layout, std::move(allocate)),
      ring_(static_cast<std::size_t>(options.queue)),
      worker_count_(static_cast<std::size_t>(options.workers)) {
  assert(options.queue > 0 && options.workers > 0);
  for (auto& slot : ring_) require_buffer(*order_, layout_, allocate_, slot.batch);
  start();
}

void PrefetchSource::start() {
  consumed_state_ = order_->state();
  next_to_read_ = consumed_ = 0;
  stopping_ = false;
  for (auto& slot : ring_) slot.ready = false, slot.error = nullptr;
  for (std::size_t i = 0; i < worker_count_; ++i) workers_.emplace_back([this] { work(); });
}

void PrefetchSource::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (auto& worker : workers_) worker.join();
  workers_.clear();
}

void PrefetchSource::work() {
  const auto depth = static_cast<std::int64_t>(ring_.size());
  std::unique_lock lock(mutex_);
  while (true) {
    room_.wait(lock, [&] { return stopping_ || next_to_read_ < consumed_ + depth; });
    if (stopping_) return;
    const std::int64_t batch_index = next_to_read_++;
    Slot& claimed = slot(batch_index);
    claimed.batch.batch_index = batch_index;
    std::optional<Place> place;
    auto error = error_of([&] {
      place = order_->advance();
      claimed.batch.after = order_->state();
    });
    if (!error) {
      lock.unlock();
      error = error_of([&] { fill(*order_, place, layout_, allocate_, claimed.batch); });
      lock.lock();
    }
    claimed.error = error;
    claimed.ready = true;
    filled_.notify_one();
    // next() rethrows at this batch, so later ones are never consumed.
    if (error) return;
  }
}

bool PrefetchSource::next(HostBatch& batch) {
  require_buffer(*order_, layout_, allocate_, batch);
  std::unique_lock lock(mutex_);
  Slot& first = slot(consumed_);
  filled_.wait(lock, [&] { return first.ready; });
  if (first.error) std::rethrow_exception(first.error);

  std::swap(batch, first.batch);
  consumed_state_ = batch.after;
  first.ready = false;
  ++consumed_;
  lock.unlock();
  room_.notify_one();
  return batch.tokens > 0;
}

void PrefetchSource::restore(const LoaderState& state) {
  stop();
  order_->restore(state);
  start();
}

void PrefetchSource::reshape(const BatchShape& shape) {
  stop();
  order_->restore(consumed_state_);
  order_->reshape(shape);
  layout_.take(shape);
  start();
}

std::unique_ptr<BatchSource> make_source(std::unique_ptr<TokenOrder> order,
                                         const BatchLayout& layout,
                                         const std::optional<PrefetchOptions>& ahead,
                                         AllocateBatch allocate) {
  if (!ahead) {
    return std::make_unique<OrderedSource>(std::move(order), layout, std::move(allocate));
  }
  return std::make_unique<PrefetchSource>(std::move(order), layout, *ahead, std::move(allocate));
}

}  // namespace tg
