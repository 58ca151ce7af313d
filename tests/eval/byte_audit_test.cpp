#include "eval/byte_audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cassert>

namespace tg {
namespace {

class Tokens final : public TokenSource {
 public:
  explicit Tokens(std::vector<std::uint16_t> ids) : ids_(std::move(ids)) {}
  const std::string& pattern() const override { return name_; }
  std::string identity() const override { return name_; }
  std::int64_t tokens(int) const override { return std::ssize(ids_); }
  std::int64_t tokens_up_to(std::int64_t limit) const override {
    return std::min(limit, std::ssize(ids_));
  }
  void read_at(std::int64_t offset, std::span<std::uint16_t> out) const override {
    assert(offset + std::ssize(out) <= std::ssize(ids_));
    std::copy_n(ids_.begin() + offset, out.size(), out.begin());
  }

 private:
  std::string name_ = "test";
  std::vector<std::uint16_t> ids_;
};

class ByteAuditTest : public testing::Test {
 protected:
  // Of the documents that begin within the first `predictions` + 1 tokens.
  ByteAudit audit(const std::vector<std::string>& documents, std::int64_t predictions = 1000) {
    std::vector<std::uint16_t> ids;
    for (const auto& document : documents) {
      ids.push_back(static_cast<std::uint16_t>(tokenizer.bos_id()));
      tokenizer.encode(document, ids);
    }
    return audit_bytes(Tokens(std::move(ids)), predictions, tokenizer, table);
  }

  const Tokenizer tokenizer{TEST_DATA_DIR "/data_bpe.model"};
  ByteTable table = make_byte_table(tokenizer, 0);
};

TEST_F(ByteAuditTest, WholeDocumentsHaveTheBytesThatTheTableCounts) {
  const std::vector<std::string> documents = {"The licence.", "Grüße, 世界!", "may be cut"};
  const auto found = audit(documents);
  EXPECT_EQ(found.documents, 2);
  EXPECT_EQ(found.counted, 12 + 16);
  EXPECT_EQ(found.decoded, 12 + 16);
  // The prediction's document is read to its end.
  const auto first = audit(documents, 1);
  EXPECT_EQ(first.documents, 1);
  EXPECT_EQ(first.decoded, 12);
  EXPECT_EQ(audit({"alone"}).decoded, 5);
}

TEST_F(ByteAuditTest, ATableThatCountsOtherwiseIsSeen) {
  for (auto& bytes : table.base_bytes) ++bytes;
  const auto found = audit({"The licence.", "left out"});
  EXPECT_EQ(found.decoded, 12);
  EXPECT_EQ(found.counted, 12 + found.tokens);
}

}  // namespace
}  // namespace tg
