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

TEST(ShardWriter, LeavesNothingBehindUnlessItWasCommitted) {
  const TempDir dir;
  {
    ShardWriter dropped(dir.path(), "fineweb", "train", 4);
    dropped.append(test::counting(10));
    dropped.finish();
    EXPECT_TRUE(find_shards(dir.path(), "fineweb").empty());
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  ShardWriter kept(dir.path(), "fineweb", "train", 4);
  kept.append(test::counting(10));
  kept.commit();
  const ShardSet shards(dir.path(), "train", 100);
  EXPECT_EQ(shards.count(), 3);
  EXPECT_EQ(shards.tokens(2), 2);
  EXPECT_EQ(read_file(shards.path(0)), test::shard_bytes(test::counting(4)));
}

TEST(ShardWriter, TellsAFullDiskFromAFolderItMayNotUse) {
  error_of(ExitCode::cannot_create, [] {
    ShardWriter("/nowhere/at/all", "fineweb", "train", 4).append(test::counting(10));
  });
  const TempDir dir;
  const auto error = error_of(ExitCode::io, [&] {
    const test::FileSizeLimit limit(1026);  // a header and one token
    ShardWriter(dir.path(), "fineweb", "train", 4).append(test::counting(10));
  });
  expect_part(error, "fineweb_train_000000.bin.tmp failed (File too large)");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace tg
