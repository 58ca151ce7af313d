#include "tests/data/make_shards.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/shard_writer.h"
#include "tests/files/packed.h"

namespace tg {
namespace {

using test::documents;
using test::expect_part;
using test::expect_start;
using test::Ids;
using test::kModel;
using test::Outcome;
using test::read_file;
using test::run;
using test::sentence;
using test::sidecar;
using test::TempDir;
using test::write_file;

TEST(MakeShards, WritesTheSameFilesWithAnyNumberOfThreads) {
  const TempDir dir;
  std::string files, long_text;
  for (int i = 0; i < 30; ++i) {
    write_file(dir / fmt::format("{}.txt", i), sentence(i));
    files += " " + (dir / fmt::format("{}.txt", i));
  }
  for (int i = 0; i < 12000; ++i) long_text += sentence(i) + "\n";  // about 900 KB: cut into parts
  write_file(dir / "long.txt", long_text);
  files += " " + (dir / "long.txt");
  for (const char* threads : {"1", "4"}) {
    const auto outcome = run(dir, fmt::format("--out {} --threads {} --shard-tokens 100001 "
                                              "--val-fraction 0.1 {}",
                                              dir / threads, threads, files));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    expect_start(outcome.out, "make_shards train: documents:28 tokens:");
    expect_part(outcome.out, "make_shards val: documents:3 tokens:");
  }
  const auto names = find_shards(dir / "1", "fineweb");
  EXPECT_GT(names.size(), 3U);
  for (const std::string& name : names) {
    const std::string other = dir / ("4/" + name.substr(name.rfind('/') + 1));
    EXPECT_TRUE(read_file(name) == read_file(other)) << name;
  }
  const auto train = documents(dir / "4", "train"), val = documents(dir / "4", "val");
  ASSERT_EQ(train.size(), 28U);
  ASSERT_EQ(val.size(), 3U);
  EXPECT_EQ(train[0], sentence(0));
  EXPECT_EQ(train[9], sentence(10));  // every tenth document is for validation
  EXPECT_EQ(val[0], sentence(9));
  EXPECT_EQ(val[2], sentence(29));
  EXPECT_TRUE(train[27] == long_text);
}

class MakeShuffledShards : public testing::Test {
 protected:
  // 200 documents, every tenth for validation.
  Outcome make(const std::string& out, const std::string& arguments) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += sentence(i) + "\n";
    write_file(dir / "in", text);
    return run(dir, fmt::format("--out {} --document-separator line --val-fraction 0.1 "
                                "--shard-tokens 1000 {}",
                                dir / out, arguments));
  }
  std::vector<std::string> made(const std::string& arguments, const std::string& split = "train") {
    const auto outcome = make("made", "--force " + arguments + " " + (dir / "in"));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return documents(dir / "made", split);
  }

  TempDir dir;
};

TEST_F(MakeShuffledShards, HaveTheSameDocumentsInAnotherOrder) {
  for (const char* split : {"train", "val"}) {
    auto plain = made("", split), shuffled = made("--shuffle 7", split);
    EXPECT_EQ(shuffled.size(), std::string(split) == "val" ? 20U : 180U);
    EXPECT_NE(plain, shuffled);
    std::ranges::sort(plain);
    std::ranges::sort(shuffled);
    EXPECT_EQ(plain, shuffled);
  }
}

TEST_F(MakeShuffledShards, HaveASidecarInTheirOrder) {
  const auto outcome = make("out", "--byte-sidecar --shuffle 7 " + (dir / "in"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Tokenizer tokenizer(kModel);
  Ids expected;
  for (const auto& document : documents(dir / "out", "val")) {
    std::vector<TokenId> ids;
    expected.push_back(0);
    tokenizer.encode_counted(document, false, ids, expected);
  }
  EXPECT_EQ(sidecar(dir / "out"), expected);
}

TEST_F(MakeShuffledShards, DependOnTheSeedAlone) {
  EXPECT_NE(made("--shuffle 7"), made("--shuffle 8"));
  const auto files = [&](const std::string& arguments) {
    EXPECT_EQ(make("files", "--force --shuffle 7 " + arguments).code, 0);
    std::string bytes;
    for (const auto& path : find_shards(dir / "files", "fineweb")) bytes += read_file(path);
    return bytes;
  };
  const auto one_thread = files("--threads 1 " + (dir / "in"));
  EXPECT_GT(one_thread.size(), 1024U);
  EXPECT_TRUE(files("--threads 4 " + (dir / "in")) == one_thread);
  EXPECT_TRUE(files("--threads 4 - <" + (dir / "in")) == one_thread) << "from standard input";
}

TEST_F(MakeShuffledShards, AreTheOnlyFilesLeftAlsoByAnError) {
  EXPECT_EQ(make("out", "--shuffle 7 " + (dir / "in")).code, 0);
  const auto count = std::distance(std::filesystem::directory_iterator(dir / "out"), {});
  EXPECT_EQ(count, std::ssize(find_shards(dir / "out", "fineweb")));
  write_file(dir / "bad", "good\n\xff");
  EXPECT_EQ(make("failed", fmt::format("--shuffle 7 {} {}", dir / "in", dir / "bad")).code, 65);
  EXPECT_TRUE(std::filesystem::is_empty(dir / "failed"));
}

TEST(MakeShards, TakesDocumentsByLineOrEmptyLineFromStandardInput) {
  const TempDir dir;
  write_file(dir / "in", "one\ntwo\n\n \nthree\nfour\n\n\n\nfive");
  const auto make = [&](const std::string& kind) {
    const auto outcome =
        run(dir, fmt::format("--out {} --val-documents 1 --document-separator {} - <{}", dir / kind,
                             kind, dir / "in"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  };
  make("line");
  EXPECT_EQ(documents(dir / "line", "val"), (std::vector<std::string>{"one"}));
  EXPECT_EQ(documents(dir / "line", "train"),
            (std::vector<std::string>{"two", "three", "four", "five"}));
  make("blank-line");
  EXPECT_EQ(documents(dir / "blank-line", "val").size(), 1U);
  EXPECT_EQ(documents(dir / "blank-line", "train").size(), 2U);
}

TEST(MakeShards, TakesADocumentFromEachLineOfAJsonlFile) {
  const TempDir dir;
  write_file(dir / "in.jsonl",
             "{\"id\": 1, \"text\": \"one\\n\\ntwo\"}\n\n  \r\n"
             "{\"text\": \"\\u00fcber \\ud83d\\ude00\", \"text2\": null}\r\n"
             "{\"text\": \" \\n\"}\n{\"text\": \"last\"}");
  const auto outcome =
      run(dir, fmt::format("--val-documents 1 --out {} {}", dir / "out", dir / "in.jsonl"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(documents(dir / "out", "val").size(), 1U);
  EXPECT_EQ(documents(dir / "out", "train").at(1), "last");
}

TEST(MakeShards, ReadsFoldersPackedFilesAndAnotherKey) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "texts/more");
  write_file(dir / "texts/a.jsonl.gz", test::gzip("{\"body\": \"one\"}\n{\"body\": \"two\"}\n"));
  write_file(dir / "texts/more/b.json", "[{\"body\": \"three\"}, {\"body\": \"four\"}]");
  write_file(dir / "texts/more/c.txt.zst", test::zstd("five"));
  write_file(dir / "texts/d.csv", "six");
  const auto arguments = fmt::format("--val-documents 1 --out {} --text-key body ", dir / "out");
  const auto outcome = run(dir, arguments + (dir / "texts"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_start(outcome.out, (dir / "texts") + ": 3 text files; left out: 1 .csv\n");
  EXPECT_EQ(documents(dir / "out", "val"), (std::vector<std::string>{"one"}));
  EXPECT_EQ(documents(dir / "out", "train"),
            (std::vector<std::string>{"two", "three", "four", "five"}));
  write_file(dir / "in", test::xz("one\n\ntwo"));
  const auto piped = run(
      dir, fmt::format("--force --document-separator blank-line {} - <{}", arguments, dir / "in"));
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(documents(dir / "out", "train"), (std::vector<std::string>{"two"}));
}

TEST(MakeShards, LeavesNothingOfADamagedOrCutStream) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += sentence(i * i) + "\n\n";
  for (const auto& [suffix, pack] : test::kPackers) {
    const auto packed = pack(text);
    const auto path = dir / "in.txt" + suffix;
    write_file(path, packed.substr(0, packed.size() - 100));
    const auto outcome =
        run(dir, fmt::format("--out {} --document-separator blank-line --shard-tokens 50000 {}",
                             dir / "out", path));
    EXPECT_EQ(outcome.code, 65);
    expect_start(outcome.err,
                 fmt::format("ERROR exit=65 rank=0: {}: expected {} data at byte {} of the file",
                             path, suffix, packed.size() - 100));
    EXPECT_TRUE(std::filesystem::is_empty(dir / "out"));
  }
}

TEST(MakeShards, SaysOnceWhatTheTokenizerDoesNotKeep) {
  const TempDir dir;
  int i = 0;
  for (const char* last : {"rights", "lights", "nights"})  // no document occurs twice
    write_file(dir / fmt::format("{}.txt", i++),
               fmt::format("The  licence\n  grants \u2460 of the {}. \n", last));
  const auto arguments =
      fmt::format("--force --val-documents 1 --out {} {}/?.txt", dir / "out", dir.path());
  const auto exact = run(dir, arguments, std::string(TEST_DATA_DIR) + "/data_exact.model");
  EXPECT_EQ(exact.code, 0);
  EXPECT_EQ(exact.err, "");
  // spm_train's own defaults.
  const auto train = fmt::format(
      "{} -c \"import sentencepiece as s; s.SentencePieceTrainer.train(input='{}', "
      "model_prefix='{}', model_type='bpe', vocab_size=60, hard_vocab_limit=False, "
      "minloglevel=2)\"",
      TEST_PYTHON, dir / "0.txt", dir / "default");
  ASSERT_EQ(std::system(train.c_str()), 0);
  const auto lossy = run(dir, arguments, dir / "default.model");
  EXPECT_EQ(lossy.code, 0) << lossy.err;
  EXPECT_EQ(lossy.err,
            fmt::format(
                "WARN rank=0: tokenizer {} does not keep the text: of the first 3 documents, "
                "126 bytes, it drops or changes 6 of 6 line ends, 9 of 9 repeated, leading "
                "and trailing spaces, 3 of 87 other characters; bits per byte count the remaining "
                "text. To keep them, train it with --normalization_rule_name=identity "
                "--remove_extra_whitespaces=false\n",
                dir / "default.model"));
}

TEST(MakeShards, StopsAtInvalidUtf8OrReplacesItWithOneWarning) {
  const TempDir dir;
  write_file(dir / "a.txt", "good text\nbad \xff\xc3 text");
  write_file(dir / "b.txt", "more");
  const std::string arguments =
      fmt::format("--val-documents 1 --out {} {} {}", dir / "out", dir / "a.txt", dir / "b.txt");
  const auto refused = run(dir, arguments);
  EXPECT_EQ(refused.code, 65);
  expect_start(refused.err, "ERROR exit=65 rank=0: " + (dir / "a.txt") +
                                " is not UTF-8 at byte 14 (found 0xff)");
  EXPECT_TRUE(std::filesystem::is_empty(dir / "out")) << "a failed run must leave no shards";
  const auto replaced = run(dir, "--replace-invalid " + arguments);
  EXPECT_EQ(replaced.code, 0);
  EXPECT_EQ(std::count(replaced.err.begin(), replaced.err.end(), '\n'), 1) << replaced.err;
  EXPECT_EQ(documents(dir / "out", "val"),
            (std::vector<std::string>{"good text\nbad \uFFFD\uFFFD text"}));
}

TEST(MakeShards, NeverMixesItsShardsWithOlderOnes) {
  const TempDir dir;
  write_file(dir / "in", "one two three four five\nsix seven eight nine ten\neleven");
  const std::string arguments =
      fmt::format("--document-separator line --val-documents 1 --out {} {} --shard-tokens",
                  dir / "out", dir / "in");
  ASSERT_EQ(run(dir, arguments + " 5").code, 0);
  const auto many = find_shards(dir / "out", "fineweb");
  EXPECT_GT(many.size(), 3U);
  const auto refused = run(dir, arguments + " 1000");
  EXPECT_EQ(refused.code, 73);
  expect_part(refused.err, "replace them with --force");
  EXPECT_EQ(find_shards(dir / "out", "fineweb"), many);
  ASSERT_EQ(run(dir, arguments + " 1000 --force --byte-sidecar").code, 0);
  EXPECT_EQ(find_shards(dir / "out", "fineweb").size(), 3U);
  ASSERT_EQ(run(dir, arguments + " 1000 --force").code, 0);
  EXPECT_EQ(find_shards(dir / "out", "fineweb").size(), 2U) << "the sidecar is of other shards";
}

TEST(MakeShards, RefusesWhatItCannotDoInOneLineWithItsExitCode) {
  const TempDir dir;
  write_file(dir / "in", "one document");
  write_file(dir / "empty", "\n \n");
  const struct {
    std::string arguments;
    int code;
    std::string part;
  } cases[] = {
      {.arguments = "", .code = 64, .part = "--out is missing"},
      {.arguments = "--out DIR/o", .code = 64, .part = "FILE (or - for standard input) is missing"},
      {.arguments = "--out DIR/o --bogus DIR/in", .code = 64, .part = "bogus"},
      {.arguments = "--out DIR/o --threads many DIR/in", .code = 64, .part = "many"},
      {.arguments = "--out DIR/o --shuffle often DIR/in", .code = 64, .part = "often"},
      {.arguments = "--out DIR/o --shuffle -1 DIR/in", .code = 64, .part = "-1"},
      {.arguments = "--out DIR/o DIR/in --shuffle", .code = 64, .part = "shuffle"},
      {.arguments = "--out DIR/o --val-fraction 1 DIR/in", .code = 64, .part = "--val-fraction"},
      {.arguments = "--out DIR/o --shard-tokens 0 DIR/in", .code = 64, .part = "--shard-tokens"},
      {.arguments = "--out DIR/o --document-separator page DIR/in",
       .code = 64,
       .part = "found page"},
      {.arguments = "--out DIR/o --baselines --val-fraction 0 DIR/in",
       .code = 64,
       .part = "--baselines needs"},
      {.arguments = "--out DIR/o --byte-sidecar --val-fraction 0 DIR/in",
       .code = 64,
       .part = "--byte-sidecar needs a validation split"},
      {.arguments = "--out DIR/o --from-tokens --byte-sidecar DIR/in",
       .code = 64,
       .part = "--byte-sidecar is for text"},
      {.arguments = "--out DIR/o --vocab-size 9 DIR/in", .code = 64, .part = "--vocab-size is for"},
      {.arguments = "--out DIR/o --from-tokens --shuffle 1 DIR/in",
       .code = 64,
       .part = "--shuffle is for text"},
      {.arguments = "--out DIR/o --from-tokens --vocab-size 9 DIR/in",
       .code = 78,
       .part = "VOCAB_SIZE=9 does not match tokenizer vocab_size=512"},
      {.arguments = "--out DIR/o --from-tokens -", .code = 66, .part = "cannot open -"},
      {.arguments = "--out DIR/o --from-tokens DIR", .code = 66, .part = "found a folder"},
      {.arguments = "--out DIR/o DIR/nowhere", .code = 66, .part = "cannot open DIR/nowhere"},
      {.arguments = "--out DIR/o DIR/empty", .code = 65, .part = "no training documents"},
      {.arguments = "--out DIR/o DIR/in",
       .code = 65,
       .part = "no validation documents (expected at least 1 of 1)"},
      {.arguments = "--out DIR/in/sub DIR/in", .code = 73, .part = "DIR/in/sub: cannot be created"},
      {.arguments = "--out /dev/full DIR/in", .code = 73, .part = "/dev/full"},
  };
  for (const auto& wrong : cases) {
    const auto fill = [&](std::string text) {
      for (auto at = text.find("DIR"); at != std::string::npos; at = text.find("DIR")) {
        text.replace(at, 3, dir.path());
      }
      return text;
    };
    const auto outcome = run(dir, fill(wrong.arguments));
    EXPECT_EQ(outcome.code, wrong.code) << wrong.arguments << "\n" << outcome.err;
    expect_start(outcome.err, fmt::format("ERROR exit={} rank=0: ", wrong.code));
    expect_part(outcome.err, fill(wrong.part));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace tg
