#include "data/document_overlap.h"

#include "tests/data/make_shards.h"

namespace tg {
namespace {

using test::expect_part;
using test::run;
using test::sentence;
using test::TempDir;
using test::write_file;

using Ids = std::vector<TokenId>;

constexpr TokenId kBos = 1;

Ids document(int index) {
  return {kBos, static_cast<TokenId>(100 + index % 1000), static_cast<TokenId>(index / 1000), 7};
}

TEST(DocumentOverlap, FindsTheDifferentDocumentsOfBothSplitsWhateverTheirParts) {
  DocumentOverlap overlap;
  overlap.append(true, document(1), true);
  for (const int index : {2, 3, 4, 3}) overlap.append(false, document(index), true);
  for (const int index : {3, 5, 3}) {
    const auto whole = document(index);
    overlap.append(true, std::span(whole).first(2), true);
    overlap.append(true, std::span(whole).subspan(2), false);
  }
  const auto found = overlap.finish();
  EXPECT_EQ(found.compared, 3);
  EXPECT_EQ(found.shared, 1);
  EXPECT_TRUE(found.all);
}

TEST(DocumentOverlap, FindsDocumentsInAStreamThatIsCutAnywhere) {
  Ids train, val;
  for (int i = 0; i < 20; ++i) {
    const auto one = document(i), other = document(i % 2 == 0 ? i : i + 100);
    train.insert(train.end(), one.begin(), one.end());
    val.insert(val.end(), other.begin(), other.end());
  }
  for (const std::size_t size : {1, 3, 64, 1000}) {
    DocumentOverlap overlap;
    for (const auto& [validation, ids] : {std::pair(false, &train), {true, &val}}) {
      for (std::size_t at = 0; at < ids->size(); at += size)
        overlap.append_stream(validation,
                              std::span(*ids).subspan(at, std::min(size, ids->size() - at)), kBos);
    }
    const auto found = overlap.finish();
    EXPECT_EQ(found.compared, 20) << size;
    EXPECT_EQ(found.shared, 10) << size;
  }
}

// A fifth of the validation documents are also in the training split.
TEST(DocumentOverlap, ComparesASampleOfMoreDocumentsThanItKeeps) {
  DocumentOverlap overlap(500);
  for (int i = 0; i < 20'000; ++i) {
    overlap.append(false, document(i), true);
    if (i % 4 == 0) overlap.append(true, document(i % 20 == 0 ? i : i + 30'000), true);
  }
  const auto found = overlap.finish();
  EXPECT_FALSE(found.all);
  EXPECT_GT(found.compared, 50);
  EXPECT_LE(found.compared, 500);
  EXPECT_NEAR(static_cast<double>(found.shared) / static_cast<double>(found.compared), 0.2, 0.12);
}

TEST(MakeShards, WarnsOfValidationDocumentsThatAreInTheTrainingSplit) {
  const TempDir dir;
  std::string lines;
  for (const int index : {1, 2, 3, 4, 2, 5, 4, 4}) lines += sentence(index) + "\n";
  write_file(dir / "in", lines);
  const auto arguments = [&](int documents) {
    return fmt::format("--document-separator line --val-documents {} --force --out {} {}",
                       documents, dir / "out", dir / "in");
  };
  const auto twice = run(dir, arguments(3));
  EXPECT_EQ(twice.code, 0);
  expect_part(twice.err,
              "WARN rank=0: 1 of 3 different validation documents are in the training "
              "split too");
  EXPECT_EQ(run(dir, arguments(1)).err.find("validation documents"), std::string::npos);

  // Also for token files of other programs, if the tokenizer marks documents.
  Ids ids;
  for (const int index : {1, 2, 3}) {
    const auto one = document(index);
    ids.insert(ids.end(), one.begin(), one.end());
  }
  write_file(dir / "train.bin", test::bytes_of(test::narrow(ids)));
  write_file(dir / "val.bin", test::bytes_of(test::narrow(ids)));
  const auto tokens = run(dir, fmt::format("--from-tokens --force --out {} {} {}", dir / "out",
                                           dir / "train.bin", dir / "val.bin"));
  EXPECT_EQ(tokens.code, 0);
  expect_part(tokens.err, "3 of 3 different validation documents");
}

}  // namespace
}  // namespace tg
