#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>

#include "data/baselines.h"
#include "data/byte_count.h"
#include "data/document_encoder.h"
#include "data/shard_writer.h"
#include "data/sharding.h"
#include "tests/data/files.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::read_file;
using test::TempDir;
using test::write_file;
using Ids = std::vector<std::uint16_t>;

const std::string model = std::string(TEST_DATA_DIR) + "/data_bpe.model";

struct Outcome {
  int code = 0;
  std::string out, err;
};

// The real program; `arguments` go through a shell.
Outcome run(const TempDir& dir, const std::string& arguments) {
  const std::string command = fmt::format("{} --tokenizer {} {} >{} 2>{}", MAKE_SHARDS, model,
                                          arguments, dir / "stdout", dir / "stderr");
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), read_file(dir / "stdout"), read_file(dir / "stderr")};
}

std::string sentence(int number) {
  return fmt::format(
      "Document {} grants you a copyright licence to reproduce the work, über alles.", number);
}

Ids all_tokens(const std::string& dir, const std::string& split) {
  const ShardSet shards(dir, split, 512);
  Ids tokens(static_cast<std::size_t>(shards.total_tokens()));
  shards.read_at(0, tokens);
  return tokens;
}

// The documents of a split, decoded.
std::vector<std::string> documents(const std::string& dir, const std::string& split) {
  const Tokenizer tokenizer(model);
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

TEST(MakeShards, ALongDocumentGetsTheTokensOfItsWholeText) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += sentence(i) + (i % 7 == 0 ? "\n" : "  ");
  write_file(dir / "text", text);
  for (const std::string name : {"data_bpe", "data_exact", "data_odd"}) {
    const Tokenizer tokenizer(std::string(TEST_DATA_DIR) + "/" + name + ".model");
    Ids expected = {static_cast<std::uint16_t>(tokenizer.bos_id())};
    tokenizer.encode(text, expected);
    DocumentReader reader({dir / "text"}, Separator::file, false);
    DocumentEncoder encoder(tokenizer, reader, 2);
    Ids tokens;
    for (auto parts = encoder.next(); !parts.empty(); parts = encoder.next()) {
      for (const auto& part : parts)
        tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    }
    EXPECT_EQ(tokens, expected) << name;
  }
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

TEST(MakeShards, FindsSeparatorsAcrossReads) {
  const TempDir dir;
  // Reads are 1 MiB: put the empty line just around that place.
  for (const std::size_t length : {1048574U, 1048575U, 1048576U}) {
    write_file(dir / "in", std::string(length, 'x') + "\n\nsecond\n\nthird");
    DocumentReader reader({dir / "in"}, Separator::blank_line, false);
    EXPECT_EQ(reader.next()->text.size(), length);
    EXPECT_EQ(reader.next()->text, "second");
    EXPECT_EQ(reader.next()->text, "third");
    EXPECT_FALSE(reader.next());
  }
}

TEST(MakeShards, TakesADocumentFromEachLineOfAJsonlFileWhateverTheSeparator) {
  const TempDir dir;
  write_file(dir / "in.jsonl",
             "{\"id\": 1, \"text\": \"one\\n\\ntwo\"}\n\n  \r\n"
             "{\"text\": \"\\u00fcber \\ud83d\\ude00\", \"text2\": null}\r\n"
             "{\"text\": \" \\n\"}\n{\"text\": \"last\"}");
  write_file(dir / "in.txt", "a\n\nb\nc");
  const std::vector<std::string> from_jsonl = {"one\n\ntwo", "\u00fcber \U0001f600", "last"};
  const auto from_txt = [](Separator separator) -> std::vector<std::string> {
    if (separator == Separator::file) return {"a\n\nb\nc"};
    if (separator == Separator::line) return {"a", "b", "c"};
    return {"a", "b\nc"};
  };
  for (const auto separator : {Separator::file, Separator::blank_line, Separator::line}) {
    DocumentReader reader({dir / "in.jsonl", dir / "in.txt", dir / "in.jsonl"}, separator, false);
    auto expected = from_jsonl;
    for (const std::string& text : from_txt(separator)) expected.push_back(text);
    expected.insert(expected.end(), from_jsonl.begin(), from_jsonl.end());
    for (const std::string& text : expected) EXPECT_EQ(reader.next()->text, text);
    EXPECT_FALSE(reader.next());
  }
  const auto outcome =
      run(dir, fmt::format("--val-documents 1 --out {} {}", dir / "out", dir / "in.jsonl"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(documents(dir / "out", "val").size(), 1U);
  EXPECT_EQ(documents(dir / "out", "train").at(1), "last");
}

TEST(MakeShards, NamesFileLineAndByteOfAJsonlLineWithoutADocument) {
  const TempDir dir;
  const std::string first = "{\"text\": \"fine\"}\n\n";  // 18 bytes, two lines
  const struct {
    std::string line;
    int byte;
    std::string found;
  } cases[] = {
      {"no json", 19, "found no JSON)"},
      {"{\"text\": \"cut", 30, "found no JSON)"},
      {"{\"text\": \"\\ud800\"}", 34, "found no JSON)"},
      {"{\"text\": \"a\"} x", 32, "found no JSON)"},
      {"{\"text\": \"a\", \"n\": 1e999}", 18, "found a number beyond the range of a double)"},
      {"[\"text\"]", 18, "found JSON array)"},
      {"\"text\"", 18, "found JSON string)"},
      {"{\"texts\": \"a\"}", 18, "found an object without \"text\")"},
      {"{\"text\": [\"a\"]}", 18, "found a \"text\" that is array)"},
      {"{\"text\": null}", 18, "found a \"text\" that is null)"},
      {std::string(100000, '['), 100017, "found no JSON)"},
  };
  for (const auto& wrong : cases) {
    write_file(dir / "in.jsonl", first + wrong.line + "\n{\"text\": \"more\"}\n");
    DocumentReader reader({dir / "in.jsonl"}, Separator::file, false);
    EXPECT_EQ(reader.next()->text, "fine");
    const auto message = error_of(ExitCode::bad_data, [&] { reader.next(); });
    expect_start(message,
                 fmt::format("{} line 3 holds no document at byte {} (expected a JSON object with "
                             "a string \"text\", ",
                             dir / "in.jsonl", wrong.byte));
    expect_part(message, wrong.found);
  }
  write_file(dir / "in.jsonl", first + "{\"text\": \"\xff\"}");
  DocumentReader strict({dir / "in.jsonl"}, Separator::file, false);
  strict.next();
  expect_start(error_of(ExitCode::bad_data, [&] { strict.next(); }),
               (dir / "in.jsonl") + " is not UTF-8 at byte 28 (found 0xff)");
  DocumentReader lenient({dir / "in.jsonl"}, Separator::file, true);
  lenient.next();
  EXPECT_EQ(lenient.next()->text, "\uFFFD");
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

TEST(Utf8, AcceptsExactlyTheWellFormedSequences) {
  const std::string good = "a\x7f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff";
  EXPECT_EQ(valid_utf8_prefix(good), good.size());
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98"}) {
    EXPECT_EQ(valid_utf8_prefix(std::string("ok") + bad), 2U) << bad;
  }
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
      {"", 64, "--out is missing"},
      {"--out DIR/o", 64, "FILE (or - for standard input) is missing"},
      {"--out DIR/o --bogus DIR/in", 64, "bogus"},
      {"--out DIR/o --threads many DIR/in", 64, "many"},
      {"--out DIR/o --val-fraction 1 DIR/in", 64, "--val-fraction"},
      {"--out DIR/o --shard-tokens 0 DIR/in", 64, "--shard-tokens"},
      {"--out DIR/o --document-separator page DIR/in", 64, "found page"},
      {"--out DIR/o --baselines --val-fraction 0 DIR/in", 64, "--baselines needs"},
      {"--out DIR/o DIR/nowhere", 66, "cannot open DIR/nowhere"},
      {"--out DIR/o DIR/empty", 65, "no training documents"},
      {"--out DIR/o DIR/in", 65, "no validation documents (expected at least 1 of 1)"},
      {"--out DIR/in/sub DIR/in", 73, "cannot create DIR/in/sub"},
      {"--out /dev/full DIR/in", 73, "/dev/full"},
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

TEST(Baselines, AreTheEntropiesOfTheirCounts) {
  const TempDir dir;
  const Tokenizer tokenizer(model);
  const ByteTable table = make_byte_table(tokenizer, 0);
  const auto find = [&](const std::string& piece) {
    int id = 0;
    while (tokenizer.piece(id) != piece) ++id;
    return static_cast<std::uint16_t>(id);
  };
  const std::uint16_t space = find("\u2581"), letter = find("t");
  ASSERT_EQ(table.leading_space[space], 1);
  ASSERT_EQ(table.base_bytes[letter], 1);
  Ids train, val;
  for (int i = 0; i < 8; ++i) train.insert(train.end(), {letter, space});
  val = {letter, space, letter, letter};
  write_file(dir / "fineweb_train_000000.bin", test::shard_bytes(train));
  write_file(dir / "fineweb_val_000000.bin", test::shard_bytes(val));
  const Baselines scores = text_baselines(ShardSet(dir.path(), "train", 512),
                                          ShardSet(dir.path(), "val", 512), tokenizer);
  // 15 predictions: 8 spaces, 7 letters. Scored: space, letter, letter: 3 bytes.
  const double p_space = 9.0 / (15 + 512), p_letter = 8.0 / (15 + 512);
  EXPECT_NEAR(scores.token_unigram, -(std::log2(p_space) + 2 * std::log2(p_letter)) / 3, 1e-12);
  EXPECT_NEAR(scores.byte_unigram, -(std::log2(9.0 / 271) + 2 * std::log2(8.0 / 271)) / 3, 1e-12);
  // letter -> space 8 of 8, space -> letter 7 of 7, letter -> letter never.
  EXPECT_NEAR(scores.token_bigram,
              -(std::log2((8 + 10 * p_space) / 18) + std::log2((7 + 10 * p_letter) / 17) +
                std::log2(10 * p_letter / 18)) /
                  3,
              1e-12);
}

}  // namespace
}  // namespace tg
