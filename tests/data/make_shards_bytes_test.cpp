// CaseOps and byte sidecars, written by the real program.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/data/make_shards.h"

namespace tg {
namespace {

using test::all_tokens;
using test::documents;
using test::expect_part;
using test::Ids;
using test::kModel;
using test::read_file;
using test::run;
using test::sentence;
using test::sidecar;
using test::TempDir;
using test::write_file;

const std::string kCaseOpsModel = std::string(TEST_DATA_DIR) + "/data_caseops.model";

TEST(MakeShards, WritesCapitalsAsOperatorsAndGivesThemBack) {
  const TempDir dir;
  const std::string text =
      "McDonald of NASA said: \"I grant YOU a licence.\"\nThe Work\naB xYZ \ue001 \ue004 É\n"
      "small\n";
  write_file(dir / "in", text);
  const auto outcome = run(dir,
                           fmt::format("--caseops --document-separator line --val-documents 1 "
                                       "--out {} {}",
                                       dir / "out", dir / "in"),
                           kCaseOpsModel);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Tokenizer tokenizer(kCaseOpsModel, 0, /*caseops=*/true);
  std::string again;
  for (const char* split : {"val", "train"})
    for (const auto& document : documents(dir / "out", split, tokenizer)) again += document + "\n";
  EXPECT_EQ(again, text);
  const auto refused =
      run(dir, fmt::format("--caseops --force --out {} {}", dir / "out", dir / "in"));
  EXPECT_EQ(refused.code, 78);
  expect_part(refused.err, "is not for CaseOps (expected U+E001 to U+E004 as pieces");
  const auto plain =
      run(dir, fmt::format("--force --out {} {}", dir / "out", dir / "in"), kCaseOpsModel);
  EXPECT_EQ(plain.code, 78);
  expect_part(plain.err, "is for CaseOps (expected CASEOPS_ENABLED=1, in make_shards --caseops");
}

// Compares with tests/fixtures/caseops.py, for documents that are read as a whole and in parts.
TEST(MakeShards, WritesTheBytesOfTextThatEachTokenStandsFor) {
  const TempDir dir;
  const auto told =
      nlohmann::json::parse(read_file(std::string(TEST_DATA_DIR) + "/data_tokens.json"));
  for (const std::string name : {"data_caseops", "data_bpe", "data_suffix"}) {
    std::string lines;
    Ids tokens, bytes;
    for (const auto& sample : told[name]["samples"]) {
      if (sample["text"] == "") continue;
      lines += nlohmann::json{{"text", sample["text"]}}.dump() + "\n";
      for (const auto& id : sample["ids"]) tokens.push_back(id);
      for (const auto& count : sample["span_bytes"]) bytes.push_back(count);
    }
    write_file(dir / "in.jsonl", lines + lines);
    const auto outcome = run(
        dir,
        fmt::format("{} --byte-sidecar --force --val-documents {} --shard-tokens 50 --out {} {}",
                    name == "data_caseops" ? "--caseops" : "", std::ranges::count(lines, '\n'),
                    dir / "out", dir / "in.jsonl"),
        std::string(TEST_DATA_DIR) + "/" + name + ".model");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(all_tokens(dir / "out", "val"), tokens) << name;
    EXPECT_EQ(all_tokens(dir / "out", "train"), tokens) << name;
    EXPECT_EQ(sidecar(dir / "out"), bytes) << name;
  }
}

TEST(MakeShards, CountsEveryByteOfALongDocumentInItsPartsAndOfGpt2sPieces) {
  const TempDir dir;
  std::string text = " ";
  for (int i = 0; i < 3000; ++i) text += sentence(i) + (i % 7 == 0 ? " NASA" : "\n");
  write_file(dir / "a.txt", text);
  write_file(dir / "b.txt", "short");
  write_file(dir / "vocab.bpe", nlohmann::json::parse(read_file(std::string(TEST_DATA_DIR) +
                                                                "/gpt2_tokens.json"))["merge_list"]
                                    .get<std::string>());
  const struct {
    std::string flags, model;
    std::int64_t lost;  // bytes: the space at the beginning
  } cases[] = {{.flags = "--caseops", .model = kCaseOpsModel, .lost = 1},
               {.flags = "--threads 3", .model = kModel, .lost = 1},
               {.flags = "--own-merges", .model = dir / "vocab.bpe", .lost = 0}};
  for (const auto& [flags, model, lost] : cases) {
    const auto outcome =
        run(dir,
            fmt::format("{} --byte-sidecar --force --val-documents 1 --shard-tokens 9999 --out "
                        "{} {} {}",
                        flags, dir / "out", dir / "a.txt", dir / "b.txt"),
            model);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto bytes = sidecar(dir / "out");
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}), std::ssize(text) - lost)
        << model;
    EXPECT_EQ(ShardSet(dir / "out", kSidecarSplit, 1 << 16).count(),
              ShardSet(dir / "out", "val", 512 + 300).count());
  }
}

TEST(MakeShards, RefusesATokenOfMoreBytesThanASidecarHolds) {
  const TempDir dir;
  write_file(dir / "a.txt", "one" + std::string(65'536, ' ') + "the");
  write_file(dir / "b.txt", "three");
  const auto outcome = run(dir, fmt::format("--byte-sidecar --val-documents 1 --out {} {} {}",
                                            dir / "out", dir / "a.txt", dir / "b.txt"));
  EXPECT_EQ(outcome.code, 65);
  expect_part(outcome.err, "cannot hold 65539 bytes of text of one token (expected at most 65535)");
  EXPECT_TRUE(std::filesystem::is_empty(dir / "out"));
}

}  // namespace
}  // namespace tg
