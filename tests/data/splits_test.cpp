#include "data/splits.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <tuple>

#include "tests/data/shards.h"
#include "tests/files/packed.h"
#include "text/tokenizer.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::TempDir;
using test::write_file;

const std::string model = std::string(TEST_DATA_DIR) + "/data_bpe.model";

DataConfig config(const std::string& data_path, const std::string& tokenizer_path = model) {
  DataConfig data;
  data.data_path = data_path;
  data.tokenizer_path = tokenizer_path;
  return data;
}

void write_documents(const std::string& path, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("document {} grants a licence\n\n", i);
  write_file(path, text);
}

void write_shards(const TempDir& dir) {
  write_file(dir / "fineweb_train_000000.bin", test::shard_bytes(test::counting(10)));
  write_file(dir / "fineweb_val_000000.bin", test::shard_bytes(test::counting(5)));
}

TEST(Splits, OpensTheShardsOfAFolderEvenWithTextBesideThem) {
  const TempDir dir;
  write_shards(dir);
  write_documents(dir / "notes.txt", 40);
  const auto splits = open_splits(config(dir.path(), ""), 512);
  EXPECT_EQ(splits.train->pattern(), dir / "fineweb_train_*.bin");
  EXPECT_EQ(splits.train->tokens(0), 10);
  EXPECT_EQ(splits.val->tokens(0), 5);
}

TEST(Splits, OpensTheShardsOfThePrefixAndTakesThoseOfAnotherForNoText) {
  const TempDir dir;
  write_file(dir / "edu_train_0.bin", test::shard_bytes(test::counting(10)));
  write_file(dir / "edu_val_0.bin", test::shard_bytes(test::counting(5)));
  write_documents(dir / "notes.txt", 40);
  auto data = config(dir.path());
  expect_part(error_of(ExitCode::missing_input, [&] { open_splits(data, 512); }),
              "set SHARD_PREFIX=edu");
  data.shard_prefix = "edu";
  EXPECT_EQ(open_splits(data, 512).train->pattern(), dir / "edu_train_*.bin");
  EXPECT_EQ(open_validation(data, 512).val->tokens(0), 5);
}

TEST(Splits, ComplainsOfTrainingShardsFirstAndOfAFolderWithNothing) {
  const TempDir dir;
  expect_start(error_of(ExitCode::missing_input, [&] { open_splits(config(dir.path()), 512); }),
               "No files found for pattern: " + (dir / "fineweb_train_*.bin"));
  expect_start(error_of(ExitCode::missing_input, [&] { open_splits(config(dir / "no"), 512); }),
               "No files found for pattern: " + (dir / "no/fineweb_train_*.bin"));
  write_shards(dir);
  std::filesystem::remove(dir / "fineweb_val_000000.bin");
  expect_start(error_of(ExitCode::missing_input, [&] { open_splits(config(dir.path()), 512); }),
               "No files found for pattern: " + (dir / "fineweb_val_*.bin"));
}

TEST(Splits, OneOfThemNeedsNoShardsOfTheOther) {
  for (const auto& [wanted, other, open] :
       {std::tuple{"train", "val", &open_training}, {"val", "train", &open_validation}}) {
    const TempDir dir;
    write_shards(dir);
    std::filesystem::remove(dir / fmt::format("fineweb_{}_000000.bin", other));
    const auto splits = open(config(dir.path(), ""), 512, {});
    EXPECT_EQ(splits.train == nullptr, other == std::string("train"));
    EXPECT_EQ(splits.val == nullptr, other == std::string("val"));
    std::filesystem::remove(dir / fmt::format("fineweb_{}_000000.bin", wanted));
    expect_start(error_of(ExitCode::missing_input, [&] { open(config(dir.path(), ""), 512, {}); }),
                 "No files found for pattern: " + (dir / fmt::format("fineweb_{}_*.bin", wanted)));
  }
}

TEST(Splits, OneDocumentIsEnoughToTrainOnAlone) {
  const TempDir dir;
  test::write_file(dir / "one.txt", "One document grants you a licence.\n");
  const auto data = config(dir / "one.txt");
  EXPECT_GT(open_training(data, 512).train->tokens(0), 0);
  expect_part(error_of(ExitCode::bad_data, [&] { open_splits(data, 512).train->tokens(0); }),
              "no validation documents");
}

TEST(Splits, TokenisesATextFileOrAllOfAFolderInTheOrderOfTheirNames) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder.txt");
  write_documents(dir / "b.txt", 40);
  write_file(dir / "a.jsonl", "{\"text\": \"first\"}");
  write_file(dir / "ignored.md", "\xff");
  const auto one = open_splits(config(dir / "b.txt"), 512);
  EXPECT_EQ(one.train->pattern(), (dir / "b.txt") + " (train)");
  const auto all = open_splits(config(dir.path()), 512);
  EXPECT_EQ(all.val->pattern(), (dir / "a.jsonl") + " and 1 more (val)");
  EXPECT_GT(all.train->tokens(0), one.train->tokens(0));
  std::vector<TokenId> tokens(10), first{1};
  Tokenizer(model).encode("first", first);
  all.train->read_at(0, tokens);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), tokens.begin()));
}

TEST(Splits, ReadsTheTextsOfSubfoldersSortedByPathAndSaysOnceWhatIsLeftOut) {
  const TempDir dir;
  for (const std::string sub : {"b", "b/c", ".git", "empty"})
    std::filesystem::create_directory(dir / sub);
  write_file(dir / "b.txt", "second");  // '.' sorts before '/'
  write_file(dir / "a.jsonl.gz", test::gzip("{\"text\": \"first\"}"));
  write_file(dir / "b/c/d.json.xz", test::xz("[{\"text\": \"fourth\"}]"));
  write_file(dir / "b/a.txt.zst", test::zstd("third"));
  write_documents(dir / "z.txt", 40);
  for (const std::string other : {"a.arrow", "b/b.arrow", "b/c/notes.md", "README", ".git/x.txt",
                                  "b/.hidden.txt", "fine.txt.bz2"})
    write_file(dir / other, "other");
  std::filesystem::create_directory_symlink(dir / "b", dir / "link");
  std::filesystem::create_symlink(dir / "z.txt", dir / "y.txt");
  testing::internal::CaptureStdout();
  const auto splits = open_splits(config(dir.path()), 512);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            dir.path() +
                ": 6 text files; left out: 2 .arrow, 1 .bz2, 1 .md, 2 hidden, 1 links to "
                "folders, 1 without a suffix\n");
  EXPECT_EQ(splits.train->pattern(), (dir / "a.jsonl.gz") + " and 5 more (train)");
  std::vector<TokenId> expected;
  for (const char* text : {"first", "second", "third", "fourth"}) {
    expected.push_back(1);
    Tokenizer(model).encode(text, expected);
  }
  std::vector<TokenId> tokens(expected.size());
  splits.train->read_at(0, tokens);
  EXPECT_EQ(tokens, expected);
}

TEST(Splits, RefusesDataOfAnotherFormatByName) {
  const TempDir dir;
  write_file(dir / "a.arrow", "ARROW1data");
  write_file(dir / "b.dat", "text");
  const auto arrow =
      (dir / "a.arrow") + " is an Arrow file (expected text in UTF-8 or JSON); convert";
  for (const std::string& path : {dir / "a.arrow", dir.path()})
    expect_start(error_of(ExitCode::bad_data, [&] { open_splits(config(path), 512); }), arrow);
  const auto message =
      error_of(ExitCode::bad_data, [&] { open_splits(config(dir / "b.dat"), 512); });
  expect_start(message, "DATA_PATH=" + (dir / "b.dat") + " is no text by its name");
}

TEST(Splits, TakesTheTextOfItsKeyAndSaysWhereThatHasNoEffect) {
  const TempDir dir;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += fmt::format("{{\"content\": \"line {}\"}}\n", i);
  write_file(dir / "a.jsonl", lines);
  write_documents(dir / "b.txt", 40);
  const auto warning_of = [&](const std::string& path) {
    auto data = config(path);
    data.text_key = "content";
    testing::internal::CaptureStderr();
    EXPECT_GT(open_splits(data, 512).train->tokens(0), 38);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warning_of(dir / "a.jsonl"), "");
  EXPECT_EQ(warning_of(dir.path()), "");
  EXPECT_EQ(warning_of(dir / "b.txt"), "WARN rank=0: TEXT_KEY=content has no effect: " +
                                           (dir / "b.txt") + " has no JSON or Parquet\n");
}

TEST(Splits, TokenisesTextOfCaseOpsAndCountsTheBytesOfItsCapitals) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 20; ++i) text += fmt::format("The NASA licence Xy {}\n\n", i);
  write_file(dir / "a.txt", text);
  auto data = config(dir / "a.txt", std::string(TEST_DATA_DIR) + "/data_caseops.model");
  data.caseops_enabled = true;
  const auto splits = open_splits(data, 420);
  const Tokenizer tokenizer(data.tokenizer_path, 0, /*caseops=*/true);
  std::vector<TokenId> tokens(static_cast<std::size_t>(splits.val->tokens(0)));
  splits.val->read_at(0, tokens);
  EXPECT_EQ(tokenizer.decode(tokens), "The NASA licence Xy 19");
  EXPECT_EQ(count_bytes(*splits.vocabulary.bytes->table, tokens), 22);
}

TEST(Splits, ReadsTheFilesThatAPatternNames) {
  const TempDir dir;
  for (const std::string name : {"part_1.txt", "part_0.txt", "other.txt"})
    write_documents(dir / name, 40);
  std::filesystem::create_directory(dir / "part_2.txt");
  const auto splits = open_splits(config(dir / "part_?.txt"), 512);
  EXPECT_EQ(splits.train->pattern(), (dir / "part_0.txt") + " and 1 more (train)");
  write_file(dir / "part_3.dat", "text");
  expect_start(error_of(ExitCode::bad_data, [&] { open_splits(config(dir / "part_*"), 512); }),
               "DATA_PATH=" + (dir / "part_3.dat") + " is no text by its name");
  error_of(ExitCode::missing_input, [&] { open_splits(config(dir / "none_*.txt"), 512); });
}

TEST(Splits, NeedsATokenizerOfTheVocabularysSizeForText) {
  const TempDir dir;
  write_documents(dir / "a.txt", 40);
  const auto message =
      error_of(ExitCode::config, [&] { open_splits(config(dir / "a.txt", ""), 512); });
  expect_start(message, "DATA_PATH=" + (dir / "a.txt") + " is text, which needs a tokenizer");
  expect_part(message, "set TOKENIZER_PATH");
  expect_start(error_of(ExitCode::config, [&] { open_splits(config(dir.path()), 1024); }),
               "VOCAB_SIZE=1024 does not match tokenizer vocab_size=512");
}

TEST(Splits, RefusesATextFileThatIsNotThereOrIsAPipe) {
  const TempDir dir;
  expect_start(error_of(ExitCode::missing_input, [&] { open_splits(config(dir / "a.txt"), 512); }),
               "cannot open " + (dir / "a.txt") + " (No such file or directory)");
  ASSERT_EQ(::mkfifo((dir / "pipe.jsonl").c_str(), 0600), 0);
  for (const std::string& path : {dir / "pipe.jsonl", dir.path()}) {
    expect_part(error_of(ExitCode::missing_input, [&] { open_splits(config(path), 512); }),
                "found a pipe or device");
  }
}

TEST(Splits, MakesSyntheticTokensAndNamesTheKindsThatItKnows) {
  DataConfig data = config("synthetic:zipf", "");
  std::vector<std::uint16_t> tokens(100), others(100);
  const auto splits = open_splits(data, 512);
  splits.train->read_at(0, tokens);
  EXPECT_EQ(splits.val->pattern(), "synthetic:zipf (val)");
  data.seed = 4;
  open_splits(data, 512).train->read_at(0, others);
  EXPECT_NE(tokens, others);
  for (const char* wrong : {"synthetic:other", "synthetic:", "synthetic:zipf2"}) {
    const auto message = error_of(ExitCode::usage, [&] { open_splits(config(wrong), 512); });
    expect_part(message,
                fmt::format("(expected synthetic:zipf or synthetic:documents, found {})", wrong));
  }
}

TEST(Splits, DocumentsBeginWithBosIdWhichAutoTakesFromTheTokenizerOrTheVocabulary) {
  const auto bos_of = [](const DataConfig& data, int vocab_size) {
    const auto splits = open_splits(data, vocab_size);
    for (const auto& source : {splits.train, splits.val}) {
      std::vector<std::uint16_t> tokens(1);
      source->read_at(0, tokens);
      EXPECT_EQ(tokens[0], splits.vocabulary.bos_id);
    }
    return splits.vocabulary.bos_id;
  };
  const TempDir dir;
  write_file(dir / "vocab.bpe", "#version: 0.2\na b\n");  // 256 bytes, one merge and BOS
  auto data = config("synthetic:documents", "");
  EXPECT_EQ(bos_of(data, 512), 1);
  EXPECT_EQ(bos_of(data, 50256), 1);
  EXPECT_EQ(bos_of(data, 50257), 50256);
  data.tokenizer_path = dir / "vocab.bpe";
  EXPECT_EQ(bos_of(data, 512), 257);
  data.bos_id = {.value = 7};
  EXPECT_EQ(bos_of(data, 512), 7);
}

TEST(Splits, RefusesAnIdThatIsNoPieceOfATokenizerWithFewer) {
  const TempDir dir;
  write_file(dir / "vocab.bpe", "#version: 0.2\na b\n");  // 256 bytes, one merge and BOS
  for (const char* split : {"train", "val"})
    write_file(dir / fmt::format("fineweb_{}_000000.bin", split),
               test::shard_bytes(test::counting(50, 210)));
  const auto data = config(dir.path(), dir / "vocab.bpe");
  const auto splits = open_splits(data, 300);
  EXPECT_EQ(splits.vocabulary.pieces, 258);
  std::vector<std::uint16_t> tokens(49);
  for (const auto& source : {splits.train, splits.val, open_validation(data, 300).val}) {
    source->read_at(0, std::span(tokens).first(48));
    expect_start(error_of(ExitCode::bad_data, [&] { source->read_at(0, tokens); }),
                 "token id out of range in " + source->path(0) +
                     " at token 48 (expected below 258, the tokenizer's pieces, found 258)");
  }
  // No text contains them either.
  const auto synthetic = open_splits(config("synthetic:zipf", dir / "vocab.bpe"), 300);
  tokens.resize(5000);
  synthetic.train->read_at(0, tokens);
  EXPECT_LT(*std::ranges::max_element(tokens), 258);
  // Without a tokenizer VOCAB_SIZE is the limit.
  std::vector<std::uint16_t> all(50);
  EXPECT_NO_THROW(open_splits(config(dir.path(), ""), 300).train->read_at(0, all));
}

}  // namespace
}  // namespace tg
