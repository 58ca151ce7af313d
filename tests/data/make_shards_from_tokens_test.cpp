#include <filesystem>
#include <random>

#include "data/shard_writer.h"
#include "data/token_ids.h"
#include "tests/data/make_shards.h"
#include "text/tokenizer.h"

namespace tg {
namespace {

using test::all_tokens;
using test::expect_part;
using test::expect_start;
using test::Ids;
using test::kModel;
using test::read_file;
using test::run;
using test::run_without_tokenizer;
using test::TempDir;
using test::write_file;

// Returns a .npy file as numpy.save writes it.
std::string npy(const std::string& dtype, const std::string& shape, const std::string& elements,
                int version = 1, bool fortran_order = false) {
  auto dictionary = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", dtype,
                                fortran_order ? "True" : "False", shape);
  dictionary.resize(version == 1 ? 117 : 115, ' ');
  dictionary += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(version), '\0', static_cast<char>(dictionary.size()), '\0'};
  if (version > 1) bytes += {'\0', '\0'};
  return bytes + dictionary + elements;
}

template <typename T>
std::string npy_of(const std::string& dtype, const Ids& ids, int version = 1) {
  return npy(dtype, fmt::format("({},)", ids.size()),
             test::bytes_of(std::vector<T>(ids.begin(), ids.end())), version);
}

TEST(MakeShardsFromTokens, TakesHeaderlessFilesAndShardsOfBothKindsByTheirNames) {
  const TempDir dir;
  const Ids train = test::counting(3'000'000), more = test::counting(40, 50'000);
  write_file(dir / "train.bin", test::bytes_of(train));
  write_file(dir / "more.bin",
             test::shard_bytes(std::vector<std::uint32_t>(more.begin(), more.end()), 20240801, 7));
  write_file(dir / "tiny_val_000000.bin", test::shard_bytes(test::counting(30)));
  const auto outcome = run_without_tokenizer(
      dir, fmt::format("--from-tokens --shard-tokens 2000000 --out {} {} {} {}", dir / "out",
                       dir / "train.bin", dir / "more.bin", dir / "tiny_val_000000.bin"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "make_shards train: tokens:3000040 shards:2\nmake_shards val: tokens:30 shards:1\n");
  auto expected = train;
  expected.insert(expected.end(), more.begin(), more.end());
  EXPECT_TRUE(all_tokens(dir / "out", "train", 1 << 16) == expected);
  EXPECT_EQ(all_tokens(dir / "out", "val"), test::counting(30));
}

TEST(MakeShardsFromTokens, TakesNumPysIntegersAndTheEndOfEachFileForValidation) {
  const TempDir dir;
  const Ids ids = test::counting(100, 1);
  const std::string files[] = {
      npy_of<std::uint8_t>("|u1", ids),     npy_of<std::int8_t>("|i1", ids, 2),
      npy_of<std::uint16_t>("<u2", ids, 3), npy_of<std::int16_t>("<i2", ids),
      npy_of<std::uint32_t>("<u4", ids),    npy_of<std::int32_t>("<i4", ids),
      npy_of<std::uint64_t>("<u8", ids),    npy_of<std::int64_t>("<i8", ids)};
  for (const std::string& bytes : files) {
    write_file(dir / "ids.npy", bytes);
    const auto outcome = run_without_tokenizer(
        dir, fmt::format("--from-tokens --val-fraction 0.3 --force --vocab-size 101 --out {} {}",
                         dir / "out", dir / "ids.npy"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(all_tokens(dir / "out", "train"), test::counting(70, 1));
    EXPECT_EQ(all_tokens(dir / "out", "val"), test::counting(30, 71));
  }
}

// Ids below `limit` in no order, as in text.
template <typename T>
std::vector<T> mixed_ids(int count, std::uint64_t limit) {
  std::mt19937_64 random(7);
  std::vector<T> ids(static_cast<std::size_t>(count));
  for (auto& id : ids) id = static_cast<T>(random() % limit);
  return ids;
}

TEST(MakeShardsFromTokens, TakesRawIdsOfTheStatedType) {
  const TempDir dir;
  const auto ids = mixed_ids<std::uint16_t>(400, 500);
  const std::pair<const char*, std::string> files[] = {
      {"uint16", test::bytes_of(ids)},
      {"uint32", test::bytes_of(std::vector<std::uint32_t>(ids.begin(), ids.end()))},
      {"int64", test::bytes_of(std::vector<std::int64_t>(ids.begin(), ids.end()))}};
  for (const auto& [dtype, bytes] : files) {
    write_file(dir / "train.bin", bytes);
    write_file(dir / "val.bin", bytes);
    const auto outcome = run_without_tokenizer(
        dir, fmt::format("--from-tokens --force --dtype {} --vocab-size 500 --out {} {} {}", dtype,
                         dir / "out", dir / "train.bin", dir / "val.bin"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(all_tokens(dir / "out", "train"), ids);
    EXPECT_EQ(all_tokens(dir / "out", "val"), ids);
  }
  const auto refused = run_without_tokenizer(
      dir, fmt::format("--from-tokens --dtype int32 --out {} {}", dir / "out", dir / "train.bin"));
  EXPECT_EQ(refused.code, 64);
  expect_part(refused.err, "--dtype: expected uint16, uint32 or int64, found int32");
}

TEST(MakeShardsFromTokens, RefusesRawIdsWhosePatternShowsAnotherWidth) {
  const TempDir dir;
  auto ignored = mixed_ids<std::int64_t>(400, 500);
  for (std::size_t i = 0; i < ignored.size(); i += 5) ignored[i] = -100;
  const struct {
    std::string bytes, stated, meant;
  } cases[] = {
      {test::bytes_of(mixed_ids<std::uint32_t>(16, 500)), "uint16", "uint32"},
      {test::bytes_of(mixed_ids<std::uint32_t>(400, 4)), "uint16", "uint32"},
      {test::bytes_of(mixed_ids<std::uint32_t>(400, 200'000)), "uint16", "uint32"},
      {test::bytes_of(mixed_ids<std::int64_t>(400, 500)), "uint16", "int64"},
      {test::bytes_of(mixed_ids<std::int64_t>(400, 500)), "uint32", "int64"},
      {test::bytes_of(mixed_ids<std::int64_t>(400, 200'000)), "uint16", "int64"},
      {test::bytes_of(ignored), "uint16", "int64"},
  };
  for (const auto& wrong : cases) {
    write_file(dir / "ids.bin", wrong.bytes);
    const auto outcome =
        run_without_tokenizer(dir, fmt::format("--from-tokens --dtype {} --out {} {}", wrong.stated,
                                               dir / "out", dir / "ids.bin"));
    EXPECT_EQ(outcome.code, 65);
    expect_part(outcome.err, fmt::format("ids.bin holds no {} ids", wrong.stated));
    expect_part(outcome.err, "give --dtype " + wrong.meant);
    EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  }
  // Nothing states a vocabulary above 65,536, whatever the file's type.
  const auto large = run_without_tokenizer(
      dir, fmt::format("--from-tokens --dtype int64 --out {} {}", dir / "out", dir / "ids.bin"));
  EXPECT_EQ(large.code, 65);
  expect_part(large.err, "token id out of range");
}

TEST(MakeShardsFromTokens, KnowsRawIdsOfItsOwnWidthFromTheHalvesOfWiderOnes) {
  for (const std::uint64_t limit : {2, 4, 65, 500, 50'257, 65'536}) {
    const auto ids = mixed_ids<std::uint16_t>(1000, limit);
    EXPECT_FALSE(wider_ids(std::as_bytes(std::span(ids)), 2)) << limit;
    const auto wide = mixed_ids<std::uint32_t>(1000, limit);
    EXPECT_FALSE(wider_ids(std::as_bytes(std::span(wide)), 4)) << limit;
  }
  const std::vector<std::uint16_t> zeros(1000);
  EXPECT_FALSE(wider_ids(std::as_bytes(std::span(zeros)), 2));
}

TEST(MakeShardsFromTokens, BeginsValidationWithADocumentWhereATokenizerTellsThem) {
  const TempDir dir;
  const int bos = Tokenizer(kModel).bos_id();
  Ids ids(100, 300);
  for (const std::size_t at : {0, 60, 80, 90}) ids[at] = static_cast<std::uint16_t>(bos);
  write_file(dir / "ids.bin", test::bytes_of(ids));
  const auto outcome =
      run(dir, fmt::format("--from-tokens --baselines --name-prefix mine --val-fraction 0.3 "
                           "--out {} {}",
                           dir / "out", dir / "ids.bin"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(ShardSet(dir / "out", "train", 512, "mine").total_tokens(), 80);
  EXPECT_EQ(ShardSet(dir / "out", "val", 512, "mine").total_tokens(), 20);
  expect_part(outcome.out, "baseline");
}

TEST(MakeShardsFromTokens, RefusesOtherFilesInOneLineAndWritesNothing) {
  const TempDir dir;
  const std::string six("\1\0\2\0\3\0", 6), good = npy("<u2", "(3,)", six);
  const struct {
    std::string name, bytes, part, arguments = "";
  } cases[] = {
      {"a.bin", "", "holds no tokens"},
      {"a.bin", "abc", "holds no uint16 ids (expected a multiple of 2 bytes, found 3)"},
      {"a.bin", good, "begins as a .npy file"},
      {"a.bin", test::shard_bytes(test::counting(8), 20240520, 2), "Unexpected shard header"},
      {"a.bin", test::shard_bytes(test::counting(8)) + "x", "Shard size mismatch"},
      {"a.txt", six, "expected .bin or .npy"},
      {"a.npy", six, "is no .npy file"},
      {"a.npy", "", "is no .npy file"},
      {"a.npy", good.substr(0, 6), "unknown .npy version"},
      {"a.npy", npy("<u2", "(3,)", six, 4), "found 4.0"},
      {"a.npy", good.substr(0, 60), "header is cut short"},
      {"a.npy", good.substr(0, good.size() - 1), "expected 3 ids of 2 bytes, found 5 bytes"},
      {"a.npy", good + "xy", "expected 3 ids of 2 bytes, found 8 bytes"},
      {"a.npy", npy("<u2", "(9223372036854775807,)", six), "found 6 bytes"},
      {"a.npy", npy(">u2", "(3,)", six), "is big-endian"},
      {"a.npy", npy(">\nu2", "(3,)", six), "is big-endian"},
      {"a.npy", npy("<f2", "(3,)", six), "found elements of dtype '<f2'"},
      {"a.npy", npy("<u2", "(3,)", six, 1, true), "is in Fortran order"},
      {"a.npy", npy("<u2", "(3, 1)", six), "is an array of 2 dimensions (expected 1)"},
      {"a.npy", npy("<u2", "()", "ab"), "of 0 dimensions"},
      {"a.npy", npy("<u2", "(0,)", ""), "holds no tokens"},
      {"a.npy", npy("<u2", "(-3,)", six), "header is damaged"},
      {"a.npy", npy("<u2', 'descr': '<u2", "(3,)", six), "header is damaged"},
      {"a.npy", npy("<i2", "(3,)", std::string("\1\0\xff\xff\3\0", 6)),
       "at token 1 (expected 0 to 65535, found -1)"},
      {"a.npy", npy("<i4", "(1,)", std::string("\0\0\1\0", 4)),
       "at token 0 (expected 0 to 65535, found 65536); a larger vocabulary is stated by "
       "--vocab-size or --tokenizer"},
      {"a.npy", good, "at token 2 (expected 0 to 2, found 3)", "--vocab-size 3"},
      {"a.npy", npy("<u2", "(1,)", std::string("\0\2", 2)),
       "at token 0 (expected 0 to 511, found 512)", "--tokenizer " + kModel},
      {"my_val_bytes_000000.bin", test::shard_bytes(test::counting(30)),
       "my_val_bytes_000000.bin: a byte sidecar by its name (expected token ids, found bytes of "
       "text)"},
      {"val.npy", good, "no training tokens"},
      {"a.npy", good, "no validation tokens"},
  };
  for (const auto& wrong : cases) {
    write_file(dir / wrong.name, wrong.bytes);
    const auto outcome =
        run_without_tokenizer(dir, fmt::format("--from-tokens --out {} {} {}", dir / "out",
                                               wrong.arguments, dir / wrong.name));
    EXPECT_EQ(outcome.code, 65) << wrong.part << "\n" << outcome.err;
    expect_start(outcome.err, "ERROR exit=65 rank=0: ");
    expect_part(outcome.err, wrong.part);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_TRUE(!std::filesystem::exists(dir / "out") || std::filesystem::is_empty(dir / "out"));
  }
}

}  // namespace
}  // namespace tg
