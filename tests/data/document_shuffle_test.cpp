#include "data/document_shuffle.h"

#include <algorithm>
#include <cstring>

#include "data/splitmix64.h"
#include "tests/data/shards.h"
#include "tests/files/file_size_limit.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::TempDir;
using Tokens = std::vector<std::uint16_t>;

constexpr std::uint64_t kKey = 20260101;
// Buffers of a few documents, and buckets that must be divided several times.
constexpr ShuffleLimits kTiny{.sorted_bytes = 600, .buffer_bytes = 200};

// Document i: i, then up to 40 more tokens.
std::vector<Tokens> make_documents(int count) {
  std::vector<Tokens> documents;
  for (int i = 0; i < count; ++i) documents.push_back(test::counting(1 + i * 7 % 41, i));
  return documents;
}

Tokens joined(const std::vector<Tokens>& documents) {
  Tokens all;
  for (const Tokens& tokens : documents) all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

Tokens shuffled(const std::vector<Tokens>& documents, DocumentShuffle shuffle) {
  for (const Tokens& tokens : documents) {
    const std::span all(tokens);
    shuffle.append(std::as_bytes(all.first(1)), true);  // in two parts
    shuffle.append(std::as_bytes(all.subspan(1)), false);
  }
  std::vector<std::byte> taken;
  shuffle.take([&](std::span<const std::byte> tokens) {
    taken.insert(taken.end(), tokens.begin(), tokens.end());
  });
  Tokens tokens(taken.size() / sizeof(Tokens::value_type));
  if (!taken.empty()) std::memcpy(tokens.data(), taken.data(), taken.size());
  return tokens;
}

TEST(DocumentShuffle, OrdersDocumentsByTheirKeysWhateverFitsInMemory) {
  const TempDir dir;
  const auto documents = make_documents(5000);
  std::vector<std::pair<std::uint64_t, Tokens>> keyed;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    keyed.emplace_back(splitmix64(kKey, i), documents[i]);
  }
  std::ranges::sort(keyed);
  Tokens expected;
  for (const auto& [key, tokens] : keyed) {
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  EXPECT_NE(expected, joined(documents));
  EXPECT_TRUE(shuffled(documents, {dir.path(), kKey}) == expected);
  EXPECT_TRUE(shuffled(documents, {dir.path(), kKey, kTiny}) == expected);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(DocumentShuffle, TakesDocumentsLargerThanAllLimits) {
  const TempDir dir;
  const std::vector<Tokens> documents = {test::counting(3000), test::counting(1, 7),
                                         test::counting(5000)};
  const auto taken = shuffled(documents, {dir.path(), kKey, kTiny});
  auto orders = documents;
  std::ranges::sort(orders);
  bool found = false;
  do found = found || joined(orders) == taken;
  while (std::ranges::next_permutation(orders).found);
  EXPECT_TRUE(found) << "documents were cut or mixed";
}

TEST(DocumentShuffle, OfNothingIsNothing) {
  EXPECT_TRUE(shuffled({}, {"/nowhere", kKey}).empty());
}

TEST(DocumentShuffle, MakesNoFilesForAFewDocuments) {
  EXPECT_EQ(shuffled(make_documents(100), {"/nowhere", kKey}).size(),
            joined(make_documents(100)).size());
}

TEST(DocumentShuffle, TellsAFullDiskFromAFolderItMayNotUse) {
  const auto documents = make_documents(1000);
  const auto refused = error_of(ExitCode::cannot_create, [&] {
    shuffled(documents, {"/nowhere/at/all", kKey, kTiny});
  });
  expect_part(refused, "cannot create a temporary file in /nowhere/at/all (No such file");
  const TempDir dir;
  const auto full = error_of(ExitCode::io, [&] {
    const test::FileSizeLimit limit(250);
    shuffled(documents, {dir.path(), kKey, kTiny});
  });
  expect_part(full, "writing a temporary file in " + dir.path() + " failed (File too large)");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace tg
