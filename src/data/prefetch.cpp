#include "data/prefetch.h"

#include <cassert>
#include <chrono>
#include <utility>

namespace tg {

PrefetchSource::PrefetchSource(std::unique_ptr<TokenOrder> order, std::int64_t seq_len,
                               PrefetchOptions options, AllocateTokens allocate)
    : order_(std::move(order)),
      seq_len_(seq_len),
      allocate_(std::move(allocate)),
      ring_(static_cast<std::size_t>(options.queue)),
      worker_count_(static_cast<std::size_t>(options.workers)) {
  assert(options.queue > 0 && options.workers > 0);
  assert(seq_len_ > 0 && (order_->span_tokens() - 1) % seq_len_ == 0);
  for (auto& place : ring_) place.buffer = allocate_(order_->span_tokens());
  start();
}

PrefetchSource::~PrefetchSource() {
  stop();
}

void PrefetchSource::start() {
  consumed_state_ = order_->state();
  next_ticket_ = consumed_ = 0;
  stopping_ = false;
  for (auto& place : ring_) place.ready = false, place.error = nullptr;
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
    room_.wait(lock, [&] { return stopping_ || next_ticket_ < consumed_ + depth; });
    if (stopping_) return;
    Slot& place = slot(next_ticket_++);
    const auto begin = order_->advance();
    place.after = order_->state();
    place.mine = begin.has_value();

    lock.unlock();
    std::exception_ptr error;
    try {
      const auto span = static_cast<std::size_t>(order_->span_tokens());
      if (begin) order_->read(*begin, {place.buffer.get(), span});
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();

    place.error = error;
    place.ready = true;
    filled_.notify_one();
    // The consumer will never ask for what lies behind a failure.
    if (error) return;
  }
}

bool PrefetchSource::next(HostBatch& batch) {
  if (!batch.buffer) batch.buffer = allocate_(order_->span_tokens());
  std::unique_lock lock(mutex_);
  Slot& place = slot(consumed_);
  if (!place.ready) {
    const auto began = std::chrono::steady_clock::now();
    filled_.wait(lock, [&] { return place.ready; });
    const std::chrono::duration<double, std::milli> waited =
        std::chrono::steady_clock::now() - began;
    waited_ms_ += waited.count();
  }
  if (place.error) std::rethrow_exception(place.error);

  std::swap(batch.buffer, place.buffer);
  batch.tokens = place.mine ? order_->span_tokens() : 0;
  batch.sequences = place.mine ? (order_->span_tokens() - 1) / seq_len_ : 0;
  batch.seq_len = seq_len_;
  batch.after = consumed_state_ = place.after;
  place.ready = false;
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

}  // namespace tg
