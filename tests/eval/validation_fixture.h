#pragma once
// A tiny record, shards of random tokens, and their scores computed separately.
#include <fmt/format.h>

#include <memory>
#include <numbers>
#include <vector>

#include "data/shard.h"
#include "eval/scores/validation.h"
#include "tests/data/shards.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg::test {

inline constexpr int kVocab = 40;
inline constexpr std::int64_t kTrainLength = 8;
// The model computes in fp32 in batches of other sizes, which may sum in another order: 1e-7 of
// each loss, and much less of their mean.
inline constexpr double kTolerance = 1e-6;

inline std::vector<std::uint16_t> random_tokens(std::int64_t count, std::uint64_t seed) {
  const auto ids = values_of(integers({count}, kVocab, seed));
  return {ids.begin(), ids.end()};
}

class ValidationFixture : public testing::Test {
 protected:
  ValidationFixture()
      : config(tiny_record()),
        table(random_parameters(config, at::kFloat, 1)),
        model(plan_of(config), table, {}) {
    settings.model = config;
    settings.data.data_path = dir.path();
    settings.run.train_seq_len = kTrainLength;
    settings.run.eval_seq_len = 2 * kTrainLength;
    settings.run.val_tokens = 0;
    settings.run.val_batch_size = 8 * 3 * kTrainLength;
    for (int id = 0; id < kVocab; ++id) {
      bytes.base_bytes.push_back(static_cast<std::int16_t>(id % 5));
      bytes.leading_space.push_back(id % 3 == 0);
      bytes.boundary.push_back(id % 7 == 0);
    }
  }

  void write_shards(const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      shards.push_back(random_tokens(sizes[i], 10 + i));
      write_file(dir / (fmt::format("fineweb_val_{:06}.bin", i)), shard_bytes(shards.back()));
      all.insert(all.end(), shards.back().begin(), shards.back().end());
    }
  }

  Validation make(const std::optional<TextBytes>& counting) const {
    return Validation(settings, std::make_shared<ShardSet>(dir.path(), "val", kVocab), counting,
                      /*bos_id=*/1, at::kCPU, alone);
  }
  Validation make(const ByteTable& table_of_bytes) const {
    return make(TextBytes{.table = table_of_bytes});
  }
  // One sidecar per shard, in which every token counts its id and 7 more bytes, and BOS (1) none.
  std::shared_ptr<const TokenSource> write_sidecar() {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      auto entries = shards[i];
      for (auto& entry : entries) entry = entry == 1 ? 0 : entry + 7;
      write_file(dir / (fmt::format("fineweb_val_bytes_{:06}.bin", i)), shard_bytes(entries));
    }
    return open_sidecar(settings.data, ShardSet(dir.path(), "val", kVocab));
  }

  // Adds the losses and bytes of `count` sequences of `length` from `first` on, one at a time.
  void add_by_hand(const std::vector<std::uint16_t>& tokens, std::size_t first, std::int64_t count,
                   std::int64_t length) {
    for (std::int64_t s = 0; s < count; ++s) {
      const auto begin = first + static_cast<std::size_t>(s * length);
      std::vector<std::int64_t> ids(
          tokens.begin() + static_cast<std::ptrdiff_t>(begin),
          tokens.begin() + static_cast<std::ptrdiff_t>(begin) + length + 1);
      const auto row = at::tensor(ids, at::kLong).unsqueeze(0);
      for (const double loss :
           values_of(model.token_losses(row.slice(1, 0, -1), row.slice(1, 1)))) {
        loss_sum += loss;
        ++predictions;
      }
      for (std::size_t t = 1; t < ids.size(); ++t) {
        const auto x = static_cast<std::size_t>(ids[t - 1]), y = static_cast<std::size_t>(ids[t]);
        byte_count += bytes.base_bytes[y];
        if (bytes.leading_space[y] != 0 && bytes.boundary[x] == 0) byte_count += 1;
      }
    }
  }

  void expect_score(const Score& score) const {
    EXPECT_NEAR(score.loss, loss_sum / predictions, kTolerance);
    ASSERT_TRUE(score.bpb.has_value());
    EXPECT_NEAR(*score.bpb, loss_sum / std::numbers::ln2 / byte_count, kTolerance);
  }

  TempDir dir;
  mutable Communicator alone;
  Settings settings;
  ModelConfig config;
  ParameterTable table;
  Gpt model;
  ByteTable bytes;
  std::vector<std::vector<std::uint16_t>> shards;
  std::vector<std::uint16_t> all;
  double loss_sum = 0, predictions = 0, byte_count = 0;
};

}  // namespace tg::test
