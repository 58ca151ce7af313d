#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/numpy_random.h"
#include "data/token_source.h"

namespace tg {

// The rows of T training tokens that a rank calibrates a quantiser on, those of the last record's
// script. Rank r of W reads shards r, r + W, …; of fewer shards than ranks, shard r mod their
// number. NumpyRandom(r) draws, shard by shard, the first window's place, 0 … T − 1, and the order
// of all windows of T tokens from there on; then for each row a shard, by its share of the windows
// left, whose last window in that order is read. Once none is left, all is drawn anew. A window is
// followed by a token at least. Rows know no documents.
class CalibrationRows {
 public:
  // `source` must outlive it. Errors: bad_data (no shard of the rank's has T + 1 tokens). Of text
  // it waits for as many.
  CalibrationRows(const TokenSource& source, std::int64_t row_tokens, int rank, int world_size);

  std::int64_t row_tokens() const { return row_tokens_; }
  // How many rows there were before all was drawn anew for the first time; 0: that has not been.
  std::int64_t rows_until_repeated() const { return rows_until_repeated_; }
  // Reads the next rows, one after the other; out.size() is a multiple of T. A source of one shard,
  // such as text, is read up to token 10⁸: the first call waits for them or the text's end. Errors:
  // those of reading (bad_data, missing_input, io).
  void read(std::span<std::uint16_t> out);

 private:
  struct Shard {
    int index;                             // in the source
    std::int64_t begin = 0;                // of the first window, in the stream
    std::vector<std::uint32_t> windows{};  // those left, the next one last
  };

  std::int64_t tokens_up_to(const Shard& shard, std::int64_t limit) const;
  std::int64_t windows_left() const;
  void draw_windows(Shard& shard);
  // → where in the stream it begins.
  std::int64_t next_row();

  const TokenSource& source_;
  const std::int64_t row_tokens_;
  NumpyRandom random_;
  std::vector<Shard> shards_;
  std::int64_t rows_ = 0, rows_until_repeated_ = 0;
};

}  // namespace tg
