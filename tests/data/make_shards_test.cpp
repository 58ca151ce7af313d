#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "data/shard.h"
#include "data/shard_writer.h"
#include "data/sharding.h"
#include "data/tokenizer.h"
#include "tests/data/files.h"
#include "tests/data/packed.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::read_file;
using test::TempDir;
using test::write_file;
using Ids = std::vector<std::uint16_t>;

const std::string kModel = std::string(TEST_DATA_DIR) + "/data_bpe.model";

struct Outcome {
  int code = 0;
  std::string out, err;
};

// The real program; `arguments` go through a shell.
Outcome run_without_tokenizer(const TempDir& dir, const std::string& arguments) {
  const std::string command =
      fmt::format("{} {} >{} 2>{}", MAKE_SHARDS, arguments, dir / "stdout", dir / "stderr");
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read_file(dir / "stdout"), read_file(dir / "stderr")};
}

Outcome run(const TempDir& dir, const std::string& arguments, const std::string& model = kModel) {
  return run_without_tokenizer(dir, fmt::format("--tokenizer {} {}", model, arguments));
}

std::string sentence(int index) {
  return fmt::format(
      "Document {} grants you a copyright licence to reproduce the work, über alles.", index);
}

Ids all_tokens(const std::string& dir, const std::string& split, int vocab_size = 512) {
  const ShardSet shards(dir, split, vocab_size);
  Ids tokens(static_cast<std::size_t>(shards.total_tokens()));
  shards.read_at(0, tokens);
  return tokens;
}

// The documents of a split, decoded.
std::vector<std::string> documents(const std::string& dir, const std::string& split) {
  const Tokenizer tokenizer(kModel);
  std::vector<Ids> found;
  for (const std::uint16_t id : all_tokens(dir, split)) {
    if (id == tokenizer.bos_id()) {
      found.emplace_back();
    } else {
      found.back().push_back(id);
    }
  }
  std::vector<std::string> texts;
  for (const Ids& ids : found) texts.push_back(tokenizer.decode(ids));
  return texts;
}

TEST(MakeShards, WritesTheSameFilesWithAnyNumberOfThreads) {
  const TempDir dir;
  std::string files, long_text;
  for (int i = 0; i < 30; ++i) {
    write_file(dir / fmt::format("{}.txt", i), sentence(i));
    files += " " + (dir / fmt::format("{}.txt", i));
  }
  for (int i = 0; i < 12000; ++i) long_text += sentence(i) + "\n";  // some 900 KB: cut into parts
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
  for (int i = 0; i < 3; ++i)
    write_file(dir / fmt::format("{}.txt", i), "The  licence\n  grants \u2460 of the rights. \n");
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
  EXPECT_EQ(
      lossy.err,
      fmt::format("WARN rank=0: tokenizer {} does not keep the text: of the first 3 documents, "
                  "126 bytes, it drops or changes 6 of 6 line ends, 9 of 9 repeated, leading "
                  "and trailing spaces, 3 of 87 other characters; bits per byte count what it "
                  "leaves. To keep them, train it with --normalization_rule_name=identity "
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
  ASSERT_EQ(run(dir, arguments + " 1000 --force").code, 0);
  EXPECT_EQ(find_shards(dir / "out", "fineweb").size(), 2U);
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
      {.arguments = "--out DIR/in/sub DIR/in", .code = 73, .part = "cannot create DIR/in/sub"},
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

// A .npy file as numpy.save writes it.
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
      {"a.bin", "abc", "expected an even number of bytes, found 3"},
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
       "at token 0 (expected 0 to 65535, found 65536); shards hold 16-bit ids"},
      {"a.npy", good, "at token 2 (expected 0 to 2, found 3)", "--vocab-size 3"},
      {"a.npy", npy("<u2", "(1,)", std::string("\0\2", 2)),
       "at token 0 (expected 0 to 511, found 512)", "--tokenizer " + kModel},
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
  // A limit on file sizes fails writes as a full disk does.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limited{1026, before.rlim_max};  // a header and one token
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const auto error = error_of(ExitCode::io, [&] {
    ShardWriter(dir.path(), "fineweb", "train", 4).append(test::counting(10));
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  expect_part(error, "fineweb_train_000000.bin.tmp failed (File too large)");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace tg
