#pragma once
// Calibration on chosen rows.
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "data/calibration_rows.h"
#include "data/shard.h"
#include "tests/data/shards.h"
#include "tests/ops/tensors.h"

namespace tg::test {

// Writes one shard per row of tokens [rows, T + 1], so that each shard has one window, the row's
// first T tokens.
class Rows {
 public:
  Rows(const at::Tensor& tokens, int vocab_size) : length_(tokens.size(1) - 1) {
    for (std::int64_t i = 0; i < tokens.size(0); ++i) {
      const auto ids = values_of(tokens[i]);
      write_file(folder_ / fmt::format("fineweb_train_{:06}.bin", i),
                 shard_bytes(std::vector<std::uint16_t>(ids.begin(), ids.end())));
    }
    shards_ = std::make_unique<ShardSet>(folder_.path(), "train", vocab_size);
  }
  CalibrationRows of_rank(int rank, int world) const { return {*shards_, length_, rank, world}; }

 private:
  TempDir folder_;
  std::int64_t length_;
  std::unique_ptr<ShardSet> shards_;
};

}  // namespace tg::test
