#include "data/calibration_rows.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/error.h"

namespace tg {
namespace {

// Tokens of a FineWeb shard: bounds the wait for a text, and the list of windows.
constexpr std::int64_t kMaxSingleShardTokens = 100'000'000;

}  // namespace

CalibrationRows::CalibrationRows(const TokenSource& source, std::int64_t row_tokens, int rank,
                                 int world_size)
    : source_(source), row_tokens_(row_tokens), random_(static_cast<std::uint64_t>(rank)) {
  assert(row_tokens > 0 && rank >= 0 && rank < world_size);
  for (int shard = rank; shard < source.count(); shard += world_size) shards_.push_back({shard});
  if (shards_.empty()) shards_.push_back({rank % source.count()});
  std::int64_t max_found = 0;
  for (const auto& shard : shards_)
    max_found = std::max(max_found, tokens_up_to(shard, row_tokens + 1));
  REQUIRE(max_found > row_tokens, ExitCode::bad_data,
          "{}: no shard of rank {} is long enough to calibrate on (expected {} tokens for a row of "
          "{}, found at most {}); lower TRAIN_SEQ_LEN or merge small shards",
          source.pattern(), rank, row_tokens + 1, row_tokens, max_found);
}

void CalibrationRows::read(const MutableIds& out) {
  const auto row_tokens = static_cast<std::size_t>(row_tokens_);
  std::visit(
      [&](auto ids) {
        assert(ids.size() % row_tokens == 0);
        for (; !ids.empty(); ids = ids.subspan(row_tokens))
          source_.read_at(next_row(), ids.first(row_tokens));
      },
      out);
}

std::int64_t CalibrationRows::next_row() {
  if (windows_left() == 0) {
    if (rows_until_repeated_ == 0) rows_until_repeated_ = rows_;
    for (auto& shard : shards_) draw_windows(shard);
  }
  const auto left = static_cast<double>(windows_left());
  std::vector<double> probabilities;
  for (const auto& shard : shards_)
    probabilities.push_back(static_cast<double>(shard.windows.size()) / left);
  auto& shard = shards_[random_.choice(probabilities)];
  const auto window = shard.windows.back();
  shard.windows.pop_back();
  ++rows_;
  return shard.begin + window * row_tokens_;
}

void CalibrationRows::draw_windows(Shard& shard) {
  const auto tokens = tokens_up_to(shard, std::numeric_limits<std::int64_t>::max());
  const auto last_begin = std::min(row_tokens_ - 1, tokens - row_tokens_ - 1);
  const std::int64_t skipped =
      last_begin > 0 ? random_.integers(static_cast<std::uint32_t>(last_begin + 1)) : 0;
  shard.begin = source_.start(shard.index) + skipped;
  const auto windows = std::max<std::int64_t>(0, (tokens - 1 - skipped) / row_tokens_);
  shard.windows = random_.permutation(static_cast<std::uint32_t>(windows));
}

std::int64_t CalibrationRows::windows_left() const {
  std::size_t left = 0;
  for (const auto& shard : shards_) left += shard.windows.size();
  return static_cast<std::int64_t>(left);
}

// If there is only one shard, its end may not be known yet.
std::int64_t CalibrationRows::tokens_up_to(const Shard& shard, std::int64_t limit) const {
  return source_.count() == 1 ? source_.tokens_up_to(std::min(limit, kMaxSingleShardTokens))
                              : std::min(limit, source_.tokens(shard.index));
}

}  // namespace tg
