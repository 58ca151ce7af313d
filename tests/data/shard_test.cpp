#include "data/shard.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/data/shards.h"

namespace tg {
namespace {

using test::counting;
using test::error_of;
using test::expect_part;
using test::expect_start;
using test::shard_bytes;
using test::TempDir;
using test::write_file;

std::vector<std::uint16_t> read_at(const ShardSet& shards, std::int64_t begin, std::size_t n) {
  std::vector<std::uint16_t> out(n);
  shards.read_at(begin, out);
  return out;
}

TEST(ShardSet, TakesTheShardsOfItsSplitInTheOrderOfTheirNames) {
  const TempDir dir;
  write_file(dir / "fineweb_train_000010.bin", shard_bytes(counting(3, 20)));
  write_file(dir / "fineweb_train_000002.bin", shard_bytes(counting(2, 10)));
  write_file(dir / "fineweb_val_000000.bin", shard_bytes(counting(9, 90)));
  write_file(dir / "fineweb_train_000003.bin.tmp", "half written");
  const ShardSet shards(dir.path(), "train", 100);
  EXPECT_EQ(shards.pattern(), dir / "fineweb_train_*.bin");
  EXPECT_EQ(shards.count(), 2);
  EXPECT_EQ(shards.tokens(0), 2);
  EXPECT_EQ(shards.total_tokens(), 5);
  EXPECT_EQ(shards.start(1), 2);
  EXPECT_EQ(read_at(shards, 0, 5), (std::vector<std::uint16_t>{10, 11, 20, 21, 22}));
  EXPECT_EQ(ShardSet(dir.path() + "/", "train", 100).pattern(), dir / "fineweb_train_*.bin");
}

// Returns the identity of shards with these tokens, except that token `changed` differs.
std::string identity_of(const std::vector<std::int64_t>& sizes, std::int64_t changed = -1) {
  const TempDir dir;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto tokens = counting(static_cast<int>(sizes[i]), 10);
    if (i == 0 && changed >= 0) tokens[static_cast<std::size_t>(changed)] ^= 1;
    write_file(dir / fmt::format("fineweb_train_{}.bin", i), shard_bytes(tokens));
  }
  return ShardSet(dir.path(), "train", 1 << 16).identity();
}

TEST(ShardSet, IsIdentifiedByItsContentWhereverItIs) {
  const auto identity = identity_of({50, 70});
  EXPECT_EQ(identity.find("2 shards, 120 tokens, digest "), 0u) << identity;
  EXPECT_EQ(identity_of({50, 70}), identity);
  std::set<std::string> all = {identity, identity_of({70, 50}), identity_of({120}),
                               identity_of({50, 71})};
  for (const std::int64_t token : {0, 17, 49}) all.insert(identity_of({50, 70}, token));
  EXPECT_EQ(all.size(), 7u);
}

TEST(ShardSet, ALargeShardIsIdentifiedByASampleOfItsBlocks) {
  constexpr std::int64_t tokens = 1 << 20;
  const auto identity = identity_of({tokens});
  EXPECT_EQ(identity_of({tokens}), identity);
  EXPECT_NE(identity_of({tokens}, 0), identity);           // in the first block
  EXPECT_NE(identity_of({tokens}, tokens - 1), identity);  // in the last block
  EXPECT_EQ(identity_of({tokens}, 20'000), identity);      // between blocks
}

TEST(ShardSet, CrossesShardsAndWrapsForEver) {
  const TempDir dir;
  std::vector<std::uint16_t> all;
  for (int shard = 0; shard < 4; ++shard) {
    const auto tokens = counting(1 + 5 * shard, 100 * shard);
    write_file(dir / fmt::format("fineweb_train_{:06}.bin", shard), shard_bytes(tokens));
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  const ShardSet shards(dir.path(), "train", 1024);
  for (std::int64_t begin = 0; begin < 3 * std::ssize(all); ++begin) {
    for (const std::size_t n : {0, 1, 7, 34, 80}) {
      std::vector<std::uint16_t> expected;
      for (std::size_t i = 0; i < n; ++i) {
        expected.push_back(all[(static_cast<std::size_t>(begin) + i) % all.size()]);
      }
      ASSERT_EQ(read_at(shards, begin, n), expected) << begin << " " << n;
    }
  }
  const std::int64_t far = (std::int64_t{1} << 40) * std::ssize(all) + 3;
  EXPECT_EQ(read_at(shards, far, 5), read_at(shards, 3, 5));
}

TEST(ShardSet, ReadsMoreShardsThanItMayHaveFilesOpenFromManyThreads) {
  const TempDir dir;
  for (int shard = 0; shard < 60; ++shard) {
    write_file(dir / fmt::format("fineweb_train_{:06}.bin", shard),
               shard_bytes(counting(10, shard)));
  }
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  const rlimit few{.rlim_cur = 40, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  {
    const ShardSet shards(dir.path(), "train", 1024);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::int64_t i = 0; i < 600; ++i) {
          const std::int64_t begin = (i * 37 + thread * 11) % 600;
          const auto found = read_at(shards, begin, 1)[0];
          EXPECT_EQ(found, begin / 10 + begin % 10);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  setrlimit(RLIMIT_NOFILE, &old);
}

// Returns the numbers of the shards that this process has open.
std::vector<int> open_shards(const std::string& dir) {
  std::vector<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // for the listing's own descriptor
    const auto file = std::filesystem::read_symlink(entry.path(), gone);
    if (file.parent_path() == dir) open.push_back(std::stoi(file.stem().string().substr(14)));
  }
  std::sort(open.begin(), open.end());
  return open;
}

TEST(ShardSet, OpensTheNextShardBeforeItIsNeededAndBlamesItOnlyWhenItIs) {
  const TempDir dir;
  for (int shard = 0; shard < 3; ++shard) {
    write_file(dir / fmt::format("fineweb_train_{:06}.bin", shard), shard_bytes(counting(100)));
  }
  const ShardSet shards(dir.path(), "train", 1024);
  EXPECT_EQ(open_shards(dir.path()), std::vector<int>());
  read_at(shards, 0, 10);
  EXPECT_EQ(open_shards(dir.path()), (std::vector<int>{0, 1}));
  std::filesystem::remove(dir / "fineweb_train_000002.bin");
  read_at(shards, 100, 10);  // would open the third shard
  expect_start(error_of(ExitCode::missing_input, [&] { read_at(shards, 195, 10); }),
               "cannot open " + (dir / "fineweb_train_000002.bin"));
}

TEST(ShardSet, SaysWhichPatternFoundNoFiles) {
  const TempDir dir;
  const auto open = [](const std::string& path) { return [path] { ShardSet(path, "val", 1024); }; };
  expect_start(error_of(ExitCode::missing_input, open(dir.path())),
               "No files found for pattern: " + (dir / "fineweb_val_*.bin"));
  const auto message = error_of(ExitCode::missing_input, open(dir / "nowhere"));
  expect_start(message, "No files found for pattern: ");
  expect_part(message, "No such file");
}

TEST(ShardSet, RefusesBrokenHeadersAndSizes) {
  auto lying = shard_bytes(counting(8));
  lying[8] = 9;
  auto negative = shard_bytes(counting(8));
  negative[11] = static_cast<char>(0x80);
  const auto good = shard_bytes(counting(8));
  const struct {
    std::string bytes, message;
  } cases[] = {
      {.bytes = "", .message = "Unexpected shard header for F: expected 1024 bytes, found 0"},
      {.bytes = good.substr(0, 1023),
       .message = "Unexpected shard header for F: expected 1024 bytes, found 1023"},
      {.bytes = shard_bytes(counting(8), 20240521),
       .message = "Unexpected shard header for F: expected 20240520 1, found "
                  "20240521 1; not a token shard"},
      {.bytes = shard_bytes(counting(8), 20240520, 2),
       .message = "Unexpected shard header for F: expected 20240520 1, found 20240520 2"},
      {.bytes = shard_bytes(counting(8), std::int32_t(0x88d83401), 0x01000000),
       .message = "Unexpected shard header for F: expected 20240520 1, found -1999096831 16777216; "
                  "the byte "
                  "order "
                  "is reversed"},
      {.bytes = shard_bytes(counting(0)),
       .message = "Unexpected shard header for F: expected at least 1 token, found 0"},
      {.bytes = negative,
       .message = "Unexpected shard header for F: expected at least 1 token, found -2147483640"},
      {.bytes = good.substr(0, good.size() - 1),
       .message = "Shard size mismatch for F: expected 1040 bytes, found 1039"},
      {.bytes = good + "x",
       .message = "Shard size mismatch for F: expected 1040 bytes, found 1041"},
      {.bytes = lying, .message = "Shard size mismatch for F: expected 1042 bytes, found 1040"},
      {.bytes = shard_bytes(counting(8), 20240801, 7),
       .message = "Shard size mismatch for F: expected 1056 bytes, found 1040"},
  };
  for (const auto& broken : cases) {
    const TempDir dir;
    const std::string file = dir / "fineweb_train_000000.bin";
    write_file(file, broken.bytes);
    std::string expected = broken.message;
    expected.replace(expected.find(" F:") + 1, 1, file);
    expect_start(error_of(ExitCode::bad_data, [&] { ShardSet(dir.path(), "train", 1024); }),
                 expected);
  }
}

TEST(ShardSet, NamesAShardThatIsAFolder) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "fineweb_train_000000.bin");
  expect_part(error_of(ExitCode::missing_input, [&] { ShardSet(dir.path(), "train", 1024); }),
              "fineweb_train_000000.bin (expected a regular file, found a folder)");
}

TEST(ShardSet, NamesShardPlaceAndIdOfATokenBeyondTheVocabulary) {
  const TempDir dir;
  const std::string file = dir / "fineweb_train_000001.bin";
  auto tokens = counting(50);
  tokens[33] = 1024;
  write_file(dir / "fineweb_train_000000.bin", shard_bytes(counting(50)));
  write_file(file, shard_bytes(tokens));
  const ShardSet shards(dir.path(), "train", 1024);
  EXPECT_NO_THROW(read_at(shards, 0, 83));
  expect_start(error_of(ExitCode::bad_data, [&] { read_at(shards, 20, 80); }),
               "token id out of range in " + file +
                   " at token 33 (expected below vocab_size=1024, found 1024)");
  EXPECT_NO_THROW(read_at(ShardSet(dir.path(), "train", 1025), 0, 100));
}

TEST(ShardSet, ReadsShardsOf32BitIdsBesideOthersWhereTheyAreOfTheVocabulary) {
  const TempDir dir;
  std::vector<std::uint32_t> wide;
  for (std::uint32_t i = 0; i < 50; ++i) wide.push_back(1000 + i);
  write_file(dir / "fineweb_train_000000.bin", shard_bytes(counting(50)));
  const std::string file = dir / "fineweb_train_000001.bin";
  write_file(file, shard_bytes(wide, 20240801, 7));
  const ShardSet shards(dir.path(), "train", 2000);
  EXPECT_EQ(shards.total_tokens(), 100);
  auto expected = counting(50);
  const auto more = counting(50, 1000);
  expected.insert(expected.end(), more.begin(), more.end());
  EXPECT_EQ(read_at(shards, 0, 100), expected);
  EXPECT_EQ(read_at(shards, 147, 5), (std::vector<std::uint16_t>{47, 48, 49, 1000, 1001}));
  wide[7] = 128000;
  write_file(file, shard_bytes(wide, 20240801, 7));
  expect_start(
      error_of(ExitCode::bad_data, [&] { read_at(ShardSet(dir.path(), "train", 1 << 16), 0, 70); }),
      "token id out of range in " + file +
          " at token 7 (expected below vocab_size=65536, found 128000)");
}

TEST(ShardSet, HasThePrefixThatItIsToldAndNamesAnotherThatIsThere) {
  const TempDir dir;
  write_file(dir / "edu_fineweb_train_000000.bin", shard_bytes(counting(10)));
  EXPECT_EQ(ShardSet(dir.path(), "train", 100, "edu_fineweb").total_tokens(), 10);
  expect_start(error_of(ExitCode::missing_input, [&] { ShardSet(dir.path(), "train", 100); }),
               "No files found for pattern: " + (dir / "fineweb_train_*.bin") +
                   "; the folder's shards are edu_fineweb_train_*.bin: set "
                   "SHARD_PREFIX=edu_fineweb");
  write_file(dir / "fineweb_train_000000.bin", shard_bytes(counting(5)));
  EXPECT_EQ(ShardSet(dir.path(), "train", 100).total_tokens(), 5);
  EXPECT_EQ(ShardSet(dir.path(), "train", 100, "edu_fineweb").total_tokens(), 10);
}

TEST(ShardSet, NoticesAShardCutOrReplacedWhileInUse) {
  const TempDir dir;
  const std::string file = dir / "fineweb_train_000000.bin";
  write_file(file, shard_bytes(counting(100)));
  const ShardSet cut(dir.path(), "train", 1024);
  read_at(cut, 0, 10);
  std::filesystem::resize_file(file, 1024 + 40);
  expect_start(error_of(ExitCode::bad_data, [&] { read_at(cut, 10, 20); }),
               "Shard size mismatch for " + file + ": expected 1224 bytes, found 1064");

  write_file(file, shard_bytes(counting(100)));
  const ShardSet replaced(dir.path(), "train", 1024);
  write_file(file, shard_bytes(counting(90)));
  expect_start(error_of(ExitCode::bad_data, [&] { read_at(replaced, 0, 10); }),
               "Shard size mismatch for " + file + ": expected 1224 bytes, found 1204");
  std::filesystem::remove(file);
  expect_start(error_of(ExitCode::missing_input, [&] { read_at(replaced, 0, 10); }),
               "cannot open " + file);
}

}  // namespace
}  // namespace tg
