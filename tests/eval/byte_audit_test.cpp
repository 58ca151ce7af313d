#include "eval/scores/byte_audit.h"

#include <gtest/gtest.h>

#include "tests/data/listed_tokens.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

using test::ListedTokens;

using Documents = std::vector<std::string>;

class ByteAuditTest : public testing::Test {
 protected:
  static Tokenizer open(const std::string& name) {
    return Tokenizer(TEST_DATA_DIR "/" + name + ".model", 0, /*caseops=*/name == "data_caseops");
  }
  static std::vector<TokenId> encode(const Tokenizer& tokenizer, const Documents& documents) {
    std::vector<TokenId> ids;
    for (const auto& document : documents) {
      ids.push_back(static_cast<TokenId>(tokenizer.bos_id()));
      tokenizer.encode(document, ids);
    }
    return ids;
  }
  // Counts the documents that begin within the first `predictions` + 1 tokens.
  ByteAudit audit(const Documents& documents, std::int64_t predictions = 1000) {
    return audit_bytes(ListedTokens(encode(tokenizer, documents)), predictions, tokenizer,
                       {.table = table});
  }

  const Tokenizer tokenizer = open("data_bpe");
  ByteTable table = make_byte_table(tokenizer, 0);
};

TEST_F(ByteAuditTest, WholeDocumentsHaveTheBytesThatTheTableCounts) {
  const Documents documents = {"The licence.", "Grüße, 世界!", "may be cut"};
  const auto found = audit(documents);
  EXPECT_EQ(found.documents, 2);
  EXPECT_EQ(found.counted, 12 + 16);
  EXPECT_EQ(found.text, 12 + 16);
  EXPECT_EQ(found.differ, 0);
  // The prediction's document is read to its end.
  const auto first = audit(documents, 1);
  EXPECT_EQ(first.documents, 1);
  EXPECT_EQ(first.text, 12);
  EXPECT_EQ(audit({"alone"}).text, 5);
}

TEST_F(ByteAuditTest, SpacesAreOneByteHoweverTheTokenizerWritesThem) {
  const Documents documents = {"  two  spaces at both    ends  ", "x", " ", "the Work and ☃ 世界",
                               "last"};
  const std::int64_t bytes = 31 + 1 + 1 + 23;
  for (const char* name : {"data_exact", "data_words", "data_suffix"}) {
    const auto other = open(name);
    const auto found = audit_bytes(ListedTokens(encode(other, documents)), 1000, other,
                                   {.table = make_byte_table(other, 0)});
    EXPECT_EQ(found.documents, 4) << name;
    EXPECT_EQ(found.text, bytes) << name;
    EXPECT_EQ(found.counted, bytes) << name;
    EXPECT_EQ(found.differ, 0) << name;
    EXPECT_EQ(found.spelled_spaces > 0, name != std::string("data_exact")) << name;
  }
}

TEST_F(ByteAuditTest, OperatorsOfCapitalsAreNoBytesOfTheText) {
  const auto other = open("data_caseops");
  const auto found = audit_bytes(
      ListedTokens(encode(other, {"The NASA of \ue001 and \ue004\ue004.", "aB", "left out"})), 1000,
      other, {.table = make_byte_table(other, 0)});
  EXPECT_EQ(found.documents, 2);
  EXPECT_EQ(found.text, 27 + 2);
  EXPECT_EQ(found.counted, found.text);
  EXPECT_EQ(found.differ, 0);
}

TEST_F(ByteAuditTest, OperatorsThatAreCountedAsTextAreSeen) {
  const auto ids = encode(open("data_caseops"), {"The NASA work", "a", "left out"});
  const Tokenizer plain(TEST_DATA_DIR "/data_caseops.model");  // as with CASEOPS_ENABLED=0
  const auto found =
      audit_bytes(ListedTokens(ids), 1000, plain, {.table = make_byte_table(plain, 0)});
  EXPECT_EQ(found.text, 13 + 1);
  EXPECT_EQ(found.counted, found.text + 2 * 3);
  EXPECT_EQ(found.differ, 1);
}

TEST_F(ByteAuditTest, ASidecarIsComparedByItsEntries) {
  std::vector<TokenId> ids;
  std::vector<std::uint16_t> entries;
  for (const char* document : {"The licence.", "Another.", "left out"}) {
    ids.push_back(static_cast<TokenId>(tokenizer.bos_id()));
    entries.push_back(0);
    tokenizer.encode_counted(document, false, ids, entries);
  }
  const auto audit_of = [&] {
    return audit_bytes(ListedTokens(ids), 1000, tokenizer,
                       {.table = {},
                        .sidecar = std::make_shared<ListedTokens>(
                            std::vector<TokenId>(entries.begin(), entries.end()))});
  };
  EXPECT_EQ(audit_of().counted, 20);
  EXPECT_EQ(audit_of().differ, 0);
  ++entries[1];
  EXPECT_EQ(audit_of().counted, 21);
  EXPECT_EQ(audit_of().differ, 1);
}

TEST_F(ByteAuditTest, ATableThatCountsOtherwiseIsSeen) {
  for (auto& bytes : table.base_bytes) ++bytes;
  const auto found = audit({"The licence.", "left out"});
  EXPECT_EQ(found.text, 12);
  EXPECT_EQ(found.counted, 12 + found.tokens + 1);  // includes the BOS that ends the document
  EXPECT_EQ(found.differ, 1);
}

TEST_F(ByteAuditTest, MistakesThatCancelAreSeen) {
  const auto more = encode(tokenizer, {"a"}).back(), less = encode(tokenizer, {"the"}).back();
  ++table.base_bytes[more];
  --table.base_bytes[less];
  const auto found = audit({"a", "the", "left out"});
  EXPECT_EQ(found.counted, found.text);
  EXPECT_EQ(found.differ, 2);
}

TEST_F(ByteAuditTest, CharactersThatTheTokenizerDoesNotKnowAreSeen) {
  const auto odd = open("data_odd");
  const auto found = audit_bytes(ListedTokens(encode(odd, {"a ☃ b", "the Work", "left out"})), 1000,
                                 odd, {.table = make_byte_table(odd, 0)});
  EXPECT_EQ(found.documents, 2);
  EXPECT_EQ(found.differ, 1);
}

TEST_F(ByteAuditTest, IdsThatAreNoTextAreSeen) {
  const test::TempDir dir;
  test::write_file(dir / "vocab.bpe", "#version: 0.2\na b\n");
  const Tokenizer bytes(dir / "vocab.bpe");
  std::vector<TokenId> ids;
  for (const char* document : {"ab", "\xe4\xb8", "left out"}) {
    ids.push_back(static_cast<TokenId>(bytes.bos_id()));
    bytes.encode(document, ids);
  }
  const auto found =
      audit_bytes(ListedTokens(ids), 1000, bytes, {.table = make_byte_table(bytes, 0)});
  EXPECT_EQ(found.documents, 2);
  EXPECT_EQ(found.counted, 4);
  EXPECT_EQ(found.differ, 1);
}

TEST_F(ByteAuditTest, ADocumentBeginsBehindAControlPiece) {
  const TokenId eos = 2;
  ASSERT_EQ(tokenizer.kind(2), Tokenizer::Kind::control);
  std::vector<TokenId> ids;
  EXPECT_EQ(audit_bytes(ListedTokens(ids), 1000, tokenizer, {.table = table}).documents, 0);
  tokenizer.encode("began before the split", ids);
  EXPECT_EQ(audit_bytes(ListedTokens(ids), 1000, tokenizer, {.table = table}).documents, 0);
  for (const char* document : {"The licence.", "", "Another.", "left out"}) {
    ids.push_back(eos);
    tokenizer.encode(document, ids);
  }
  const auto found = audit_bytes(ListedTokens(ids), 1000, tokenizer, {.table = table});
  EXPECT_EQ(found.documents, 2);
  EXPECT_EQ(found.counted, 20);
  EXPECT_EQ(found.differ, 0);
}

}  // namespace
}  // namespace tg
