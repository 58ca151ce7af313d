// Vocabularies above 65,536: every way from shards, text and generators to batches has the ids that
// it has with 16 bits, each higher by a constant.
#include <nlohmann/json.hpp>

#include "data/aligned_order.h"
#include "data/calibration_rows.h"
#include "data/documents_order.h"
#include "data/ids.h"
#include "data/prefetch.h"
#include "data/synthetic_tokens.h"
#include "data/text_tokens.h"
#include "tests/data/document_shards.h"
#include "tests/data/make_shards.h"
#include "text/byte_spelling.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::kBos;
using test::listed;
using test::TempDir;
using test::write_file;
using WideIds = std::vector<TokenId>;

constexpr TokenId kShift = 100'000;
constexpr int kVocab = 200'000;
constexpr int kWideBos = kBos + kShift;

WideIds shifted(const std::vector<NarrowId>& ids) {
  WideIds wide;
  for (const auto id : ids) wide.push_back(id + kShift);
  return wide;
}

// Shards of the same documents in both widths.
struct BothWidths {
  explicit BothWidths(const std::vector<int>& sizes) : narrow(test::documents(sizes)) {
    for (std::size_t i = 0; i < narrow.tokens.size(); ++i)
      write_file(dir / fmt::format("fineweb_train_{:06}.bin", i),
                 test::shard_bytes(shifted(narrow.tokens[i])));
    wide = std::make_unique<ShardSet>(dir.path(), "train", kVocab);
  }
  TempDir dir;
  test::Shards narrow;
  std::unique_ptr<ShardSet> wide;
};

// Expects equal batches of all rounds but for the shift, read when due and ahead, with segments.
template <class MakeOrder>
void expect_shifted(const BothWidths& shards, const MakeOrder& make_order) {
  for (const bool ahead : {false, true}) {
    const auto source = [&](const ShardSet& set, int bos) {
      return make_source(
          make_order(set, bos), {.seq_len = 0, .segments = SegmentRule{.bos_id = bos, .limit = 7}},
          ahead ? std::optional(PrefetchOptions{.queue = 3, .workers = 2}) : std::nullopt);
    };
    auto narrow = source(*shards.narrow.set, kBos);
    auto wide = source(*shards.wide, kWideBos);
    HostBatch expected, found;
    for (int round = 0; round < 60; ++round) {
      const bool any = narrow->next(expected);
      ASSERT_EQ(wide->next(found), any);
      EXPECT_EQ(found.after, expected.after);
      if (!any) continue;
      EXPECT_EQ(found.id_bytes, 4);
      EXPECT_EQ(expected.id_bytes, 2);
      EXPECT_EQ(found.stored() - found.boundaries_begin(),
                expected.stored() - expected.boundaries_begin());
      ASSERT_EQ(listed(found.inputs()), shifted(test::narrow(listed(expected.inputs())))) << round;
      ASSERT_EQ(listed(found.targets()), shifted(test::narrow(listed(expected.targets()))));
      ASSERT_EQ(std::memcmp(found.buffer.get() + found.boundaries_begin(),
                            expected.buffer.get() + expected.boundaries_begin(),
                            static_cast<std::size_t>(4 * (found.segment_capacity + 1))),
                0);
      if (round == 30) {  // as when a run is resumed
        wide->restore(found.after);
        narrow->restore(expected.after);
      }
    }
  }
}

const std::vector<int> kSizes = {900, 700, 1100};

TEST(WideIds, AreReadInTheOrderOfTheStreamAndInStrides) {
  const BothWidths shards(kSizes);
  expect_shifted(shards, [](const ShardSet& set, int) {
    return std::make_unique<StreamOrder>(set, 64, 3, /*rank=*/1, /*world_size=*/2);
  });
  expect_shifted(shards, [](const ShardSet& set, int) {
    return std::make_unique<StridedOrder>(set, 64, 1, 2, /*repeat_first=*/false);
  });
}

TEST(WideIds, AreReadInTheOrdersOfDocuments) {
  const BothWidths shards(kSizes);
  const DocumentRows rows{.tokens = 50, .of_step = 4, .of_round = 4};
  expect_shifted(shards, [&](const ShardSet& set, int bos) {
    return std::make_unique<DocumentsOrder>(set, rows, bos, 0, 2);
  });
  expect_shifted(shards, [&](const ShardSet& set, int bos) {
    return std::make_unique<AlignedOrder>(set, rows,
                                          AlignedOrder::Pieces{.bos_id = bos, .limit = 20}, 0, 2);
  });
}

TEST(WideIds, AreReadAsRowsToCalibrateOn) {
  const BothWidths shards(kSizes);
  CalibrationRows narrow(*shards.narrow.set, 16, 0, 1), wide(*shards.wide, 16, 0, 1);
  EXPECT_EQ(wide.id_bytes(), 4);
  std::vector<NarrowId> expected(320);
  WideIds found(320);
  narrow.read(expected);
  wide.read(found);
  EXPECT_EQ(found, shifted(expected));
}

// A vocabulary above 65,536 may have older shards, of 16 bits, beside new ones.
TEST(WideIds, StandBesideShardsOf16Bits) {
  const TempDir dir;
  write_file(dir / "fineweb_train_000000.bin", test::shard_bytes(test::counting(50, 7)));
  write_file(dir / "fineweb_train_000001.bin", test::shard_bytes(WideIds{128'000, 3, 199'999}));
  const ShardSet shards(dir.path(), "train", kVocab);
  WideIds found(5);
  shards.read_at(48, found);
  EXPECT_EQ(found, (WideIds{55, 56, 128'000, 3, 199'999}));
  // With a tokenizer of fewer pieces, ids have 16 bits in memory.
  ShardSet narrowed(dir.path(), "train", kVocab);
  narrowed.set_pieces(60'000);
  EXPECT_EQ(narrowed.id_bytes(), 2);
  std::vector<NarrowId> narrow(3);
  expect_part(error_of(ExitCode::bad_data, [&] { narrowed.read_at(49, narrow); }),
              "at token 0 (expected below 60000, the tokenizer's pieces, found 128000)");
}

TEST(WideIds, AreCheckedAndCutShardsRefused) {
  const TempDir dir;
  const std::string file = dir / "fineweb_train_000000.bin";
  write_file(file, test::shard_bytes(WideIds{5, 199'999, 200'000}));
  WideIds found(3);
  expect_start(error_of(ExitCode::bad_data,
                        [&] { ShardSet(dir.path(), "train", kVocab).read_at(0, found); }),
               "token id out of range in " + file +
                   " at token 2 (expected below vocab_size=200000, found 200000)");
  for (const auto& [size, expected] : {std::pair{1024 + 11, "expected 1036 bytes, found 1035"},
                                       {1024 + 6, "expected 1036 bytes, found 1030"},
                                       {1000, "expected 1024 bytes, found 1000"}}) {
    std::filesystem::resize_file(file, static_cast<std::uintmax_t>(size));
    expect_part(error_of(ExitCode::bad_data, [&] { ShardSet(dir.path(), "train", kVocab); }),
                expected);
  }
}

TEST(WideIds, OfNarrowTokensAreNeverFound) {
  const auto tokens = test::counting(1000);
  const std::span<const NarrowId> all(tokens);
  EXPECT_EQ(find_token(all, 7), 7U);
  EXPECT_EQ(find_token(all, 65536 + 7), 1000U);
}

TEST(WideIds, OfAGeneratorReachTheWholeVocabulary) {
  const SyntheticDocuments documents("train", kVocab, 1, 150'000);
  EXPECT_EQ(documents.id_bytes(), 4);
  WideIds ids(200'000);
  documents.read_at(0, ids);
  EXPECT_EQ(ids.front(), 150'000U);
  EXPECT_GT(std::ranges::count(ids, 150'000U), 100);
  EXPECT_GT(std::ranges::max(ids), 190'000U);
  EXPECT_LT(std::ranges::max(ids), 200'000U);
}

// A byte-level vocabulary without merges, whose bytes have ids from 60,000 on in steps of 300.
std::string wide_tokenizer(const TempDir& dir) {
  nlohmann::json ids = {{"<|endoftext|>", 199'999}};
  for (int byte = 0; byte < 256; ++byte)
    ids[spelled(std::string{static_cast<char>(byte)})] = 60'000 + 300 * byte;
  write_file(dir / "vocab.json", ids.dump());
  write_file(dir / "merges.txt", "#version: 0.2\n");
  return dir / "merges.txt";
}

std::string text_of_documents() {
  std::string text;
  for (int i = 0; i < 100; ++i) text += test::sentence(i) + "\n\n";
  return text;
}

WideIds ids_of_split(const std::string& dir, const std::string& split) {
  const ShardSet shards(dir, split, kVocab);
  WideIds ids(static_cast<std::size_t>(shards.total_tokens()));
  shards.read_at(0, ids);
  return ids;
}

TEST(WideIds, OfTextAreThoseOfItsShardsInEveryProcess) {
  const TempDir dir;
  const auto tokenizer = wide_tokenizer(dir);
  write_file(dir / "text.txt", text_of_documents());
  const auto made =
      test::run(dir,
                fmt::format("--document-separator blank-line --own-merges --out {} {}", dir / "out",
                            dir / "text.txt"),
                tokenizer);
  ASSERT_EQ(made.code, 0) << made.err;
  std::string address;
  const TextCorpus first({dir / "text.txt"}, Tokenizer(tokenizer), 2, "text",
                         [&](const auto& make) { return address = make(); });
  const TextCorpus second({dir / "text.txt"}, Tokenizer(tokenizer), 2, "text",
                          [&](const auto&) { return address; });
  for (const auto* corpus : {&first, &second}) {
    for (const auto& [source, split] :
         {std::pair{corpus->train(), "train"}, {corpus->val(), "val"}}) {
      EXPECT_EQ(source->id_bytes(), 4);
      WideIds ids(static_cast<std::size_t>(source->tokens(0)));
      source->read_at(0, ids);
      EXPECT_EQ(ids, ids_of_split(dir / "out", split));
    }
  }
}

TEST(WideIds, MayBeShuffledWithASidecarOf16Bits) {
  const TempDir dir;
  const auto tokenizer = wide_tokenizer(dir);
  write_file(dir / "text.txt", text_of_documents());
  const auto make = [&](const std::string& out, const std::string& flags) {
    const auto made = test::run(
        dir,
        fmt::format("--document-separator blank-line --own-merges --byte-sidecar {} --out {} {}",
                    flags, dir / out, dir / "text.txt"),
        tokenizer);
    ASSERT_EQ(made.code, 0) << made.err;
  };
  make("plain", "");
  make("shuffled", "--shuffle 3");
  const Tokenizer opened(tokenizer);
  for (const char* split : {"train", "val"}) {
    auto plain = ids_of_split(dir / "plain", split), other = ids_of_split(dir / "shuffled", split);
    EXPECT_NE(plain, other);
    std::ranges::sort(plain);
    std::ranges::sort(other);
    EXPECT_EQ(plain, other);
  }
  const auto val = ids_of_split(dir / "shuffled", "val");
  std::vector<std::uint16_t> expected;
  for (const auto id : val) expected.push_back(id == 199'999 ? 0 : 1);
  EXPECT_EQ(test::sidecar(dir / "shuffled"), expected);
}

TEST(WideIds, AreTakenFromOtherProgramsFilesWhereTheVocabularyIsStated) {
  const TempDir dir;
  WideIds ids;
  for (TokenId i = 0; i < 3000; ++i) ids.push_back(151'935 - i * 7919 % 151'936);
  write_file(dir / "train.bin", test::bytes_of(ids));
  write_file(dir / "val.bin", test::shard_bytes(ids));
  const auto arguments = fmt::format("--from-tokens --dtype uint32 --force --out {} {} {}",
                                     dir / "out", dir / "train.bin", dir / "val.bin");
  const auto refused = test::run_without_tokenizer(dir, arguments);
  EXPECT_EQ(refused.code, 65);
  expect_part(refused.err, "a larger vocabulary is stated by --vocab-size or --tokenizer");
  const auto made = test::run_without_tokenizer(dir, "--vocab-size 151936 " + arguments);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(ids_of_split(dir / "out", "train"), ids);
  EXPECT_EQ(test::read_file(dir / "out/fineweb_val_000000.bin"), test::shard_bytes(ids));
  const auto small = test::run_without_tokenizer(dir, "--vocab-size 151935 " + arguments);
  EXPECT_EQ(small.code, 65);
  expect_part(small.err, "(expected 0 to 151934, found 151935)");
  const auto too_large = test::run_without_tokenizer(dir, "--vocab-size 1048577 " + arguments);
  EXPECT_EQ(too_large.code, 64);
  expect_part(too_large.err, "--vocab-size: expected 0 to 1048576, found 1048577");
}

}  // namespace
}  // namespace tg
