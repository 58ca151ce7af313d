#include <algorithm>
#include <barrier>
#include <cassert>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <thread>

#include "base/cores.h"
#include "base/progress.h"
#include "weights/artifact/pergroup.h"

namespace tg {
namespace {

constexpr std::size_t kBlock = 64;

// Matrix rows as bytes (int8 + 128, so distances are equal), padded to whole blocks.
class ByteRows {
 public:
  ByteRows(std::span<const std::int8_t> matrix, std::size_t rows)
      : columns_(matrix.size() / rows),
        stride_((columns_ + kBlock - 1) / kBlock * kBlock),
        bytes_(rows * stride_) {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns_; ++c)
        bytes_[r * stride_ + c] = static_cast<std::uint8_t>(matrix[r * columns_ + c] + 128);
  }

  const std::uint8_t* row(std::size_t r) const { return &bytes_[r * stride_]; }
  void copy(std::size_t from, std::size_t to) {
    std::copy_n(row(from), stride_, &bytes_[to * stride_]);
  }
  // Sums the byte differences in blocks of constant size, since compilers then use one instruction
  // (psadbw) for 16 bytes.
  std::uint64_t distance(const std::uint8_t* a, const std::uint8_t* b) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < stride_; i += kBlock) {
      std::uint32_t part = 0;
      for (std::size_t j = 0; j < kBlock; ++j)
        part += static_cast<std::uint32_t>(std::abs(a[i + j] - b[i + j]));
      sum += part;
    }
    return sum;
  }

 private:
  std::size_t columns_, stride_;
  std::vector<std::uint8_t> bytes_;
};

// Nearest candidate: the lowest distance, ties to the lowest row.
struct Nearest {
  std::uint64_t distance = std::numeric_limits<std::uint64_t>::max();
  std::uint16_t row = 0;
  std::size_t place = 0;

  auto operator<=>(const Nearest&) const = default;
};

class GreedyOrder {
 public:
  GreedyOrder(std::span<const std::int8_t> matrix, std::size_t rows)
      : all_(matrix, rows), unused_(all_), row_at_(rows), left_(rows) {
    std::iota(row_at_.begin(), row_at_.end(), std::uint16_t{0});
    take({.distance = 0, .row = 0, .place = 0});
  }

  bool done() const { return left_ == 0; }
  // Searches the part-th of `parts` of the unused rows.
  Nearest find(std::size_t part, std::size_t parts) const {
    const auto* last = all_.row(order_.back());
    Nearest nearest;
    for (std::size_t i = left_ * part / parts; i < left_ * (part + 1) / parts; ++i)
      nearest = std::min(nearest, {all_.distance(last, unused_.row(i)), row_at_[i], i});
    return nearest;
  }
  void take(const Nearest& nearest) {
    order_.push_back(nearest.row);
    --left_;
    unused_.copy(left_, nearest.place);
    row_at_[nearest.place] = row_at_[left_];
  }
  void abandon() { left_ = 0; }
  std::vector<std::uint16_t> order() && { return std::move(order_); }

 private:
  const ByteRows all_;
  ByteRows unused_;  // the first left_ rows are valid
  std::vector<std::uint16_t> row_at_, order_;
  std::size_t left_;
};

// Uses so many threads that each initially searches for at least half a millisecond: on a busy
// machine a barrier may take as long (two threads took 14 s for 8,192 rows of 512 columns, instead
// of 1 s).
std::size_t thread_count(std::size_t elements) {
  constexpr std::size_t kElementsPerThread = 1 << 23, kMaxThreads = 16;
  return std::clamp<std::size_t>(elements / kElementsPerThread, 1,
                                 std::min<std::size_t>(kMaxThreads, available_cores()));
}

}  // namespace

std::vector<std::uint16_t> greedy_row_order(std::span<const std::int8_t> matrix, std::size_t rows) {
  if (rows == 0) return {};
  assert(rows <= std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1);
  GreedyOrder order(matrix, rows);
  std::vector<Nearest> found(thread_count(matrix.size()));
  bool failed = false;
  std::barrier all_found(static_cast<std::ptrdiff_t>(found.size()), [&]() noexcept {
    if (failed)
      order.abandon();
    else
      order.take(*std::min_element(found.begin(), found.end()));
  });
  const auto search = [&](std::size_t part) {
    while (!order.done()) {
      found[part] = order.find(part, found.size());
      report_progress(0);
      all_found.arrive_and_wait();
    }
  };
  std::vector<std::jthread> others;
  try {
    for (std::size_t part = 1; part < found.size(); ++part) others.emplace_back(search, part);
    search(0);
  } catch (...) {
    // The threads that have started wait at the barrier for the parts that no thread searches.
    failed = true;
    for (std::size_t part = others.size(); part < found.size(); ++part) all_found.arrive_and_drop();
    throw;
  }
  others.clear();
  return std::move(order).order();
}

}  // namespace tg
