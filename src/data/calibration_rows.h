#pragma once
#include <cstdint>
#include <vector>

#include "data/numpy_random.h"
#include "data/token_source.h"

namespace tg {

// Rows of T training tokens on which a rank calibrates a quantizer, drawn as by the last record's
// script. Rank r of W reads shards r, r + W, …; if there are fewer shards than ranks, shard r mod
// their number. NumpyRandom(r) draws, for each shard, the offset of the first window, 0 … T − 1,
// and a permutation of all windows of T tokens from there on; then for each row a shard, with a
// probability proportional to its remaining windows, whose last remaining window in that
// permutation is read. Once no window is left, everything is drawn again. A window is followed by
// at least one token. Rows ignore document boundaries.
class CalibrationRows {
 public:
  // `source` must outlive this object. Waits for T + 1 tokens if the source is text. Throws
  // Error(bad_data) if no shard of the rank has T + 1 tokens.
  CalibrationRows(const TokenSource& source, std::int64_t row_tokens, int rank, int world_size);

  std::int64_t row_tokens() const { return row_tokens_; }
  // Returns the number of rows before windows were first drawn again; 0: not yet.
  std::int64_t rows_until_repeated() const { return rows_until_repeated_; }
  int id_bytes() const { return source_.id_bytes(); }
  // Reads consecutive rows; the number of ids in `out` is a multiple of T. A source with one shard,
  // such as text, is read up to token 10⁸: the first call waits for them or for the end of the
  // text. Throws what reading throws (bad_data, missing_input, io).
  void read(const MutableIds& out);

 private:
  struct Shard {
    int index;                             // index in the source
    std::int64_t begin = 0;                // stream position of the first window
    std::vector<std::uint32_t> windows{};  // remaining windows, the next one last
  };

  std::int64_t tokens_up_to(const Shard& shard, std::int64_t limit) const;
  std::int64_t windows_left() const;
  void draw_windows(Shard& shard);
  // Returns the stream position of the next row.
  std::int64_t next_row();

  const TokenSource& source_;
  const std::int64_t row_tokens_;
  NumpyRandom random_;
  std::vector<Shard> shards_;
  std::int64_t rows_ = 0, rows_until_repeated_ = 0;
};

}  // namespace tg
