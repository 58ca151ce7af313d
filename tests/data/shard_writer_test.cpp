#include "data/shard_writer.h"

#include <filesystem>

#include "data/shard.h"
#include "tests/data/shards.h"
#include "tests/files/file_size_limit.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::read_file;
using test::TempDir;

template <class Id>
std::span<const std::byte> stored(const std::vector<Id>& ids) {
  return std::as_bytes(std::span(ids));
}

TEST(ShardWriter, LeavesNothingBehindUnlessItWasCommitted) {
  const TempDir dir;
  {
    ShardWriter dropped(dir.path(), "fineweb", "train", 4, 2);
    dropped.append(stored(test::counting(10)));
    dropped.finish();
    EXPECT_TRUE(find_shards(dir.path(), "fineweb").empty());
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  ShardWriter kept(dir.path(), "fineweb", "train", 4, 2);
  kept.append(stored(test::counting(10)));
  kept.commit();
  const ShardSet shards(dir.path(), "train", 100);
  EXPECT_EQ(shards.count(), 3);
  EXPECT_EQ(shards.tokens(2), 2);
  EXPECT_EQ(read_file(shards.path(0)), test::shard_bytes(test::counting(4)));
}

TEST(ShardWriter, WritesIdsOf32BitsUnderTheHeaderForThem) {
  const TempDir dir;
  std::vector<TokenId> ids;
  for (TokenId i = 0; i < 300'000; ++i) ids.push_back(i * 3);
  ShardWriter writer(dir.path(), "fineweb", "train", 200'001, 4);
  writer.append(stored(ids));
  writer.commit();
  const ShardSet shards(dir.path(), "train", 1'000'000);
  EXPECT_EQ(shards.count(), 2);
  std::vector<TokenId> read(ids.size());
  shards.read_at(0, read);
  EXPECT_EQ(read, ids);
  ids.resize(200'001);
  EXPECT_EQ(read_file(shards.path(0)), test::shard_bytes(ids, 20240801, 7));
}

TEST(ShardWriter, TellsAFullDiskFromAFolderItMayNotUse) {
  error_of(ExitCode::cannot_create, [] {
    ShardWriter("/nowhere/at/all", "fineweb", "train", 4, 2).append(stored(test::counting(10)));
  });
  const TempDir dir;
  const auto error = error_of(ExitCode::io, [&] {
    const test::FileSizeLimit limit(1026);  // a header and one token
    ShardWriter(dir.path(), "fineweb", "train", 4, 2).append(stored(test::counting(10)));
  });
  expect_part(error, "fineweb_train_000000.bin.tmp failed (File too large)");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace tg
