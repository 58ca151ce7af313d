#include "eval/scores/document_batches.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tg {
namespace {

constexpr std::uint16_t kBos = 1;

using Documents = std::vector<DocumentSpan>;

TEST(FindDocuments, RunFromABosToTheNextThatOneIncluded) {
  const std::vector<std::uint16_t> tokens{1, 5, 6, 1, 7, 1, 1, 8, 9, 9};
  EXPECT_EQ(find_documents(tokens, kBos), (Documents{{0, 4}, {3, 3}, {5, 2}, {6, 4}}));
}

TEST(FindDocuments, PredictEveryTokenButTheFirstOnceWhateverBeginsAndEndsTheSplit) {
  const std::vector<std::vector<std::uint16_t>> splits{
      {5, 6, 1, 7}, {1, 7, 8, 1}, {5, 6, 7}, {1, 1}, {5, 1}};
  for (const auto& tokens : splits) {
    std::vector<int> times(tokens.size());
    for (const auto& [start, length] : find_documents(tokens, kBos)) {
      for (auto t = start + 1; t < start + length; ++t) ++times.at(static_cast<std::size_t>(t));
    }
    std::vector<int> once(tokens.size(), 1);
    once[0] = 0;
    EXPECT_EQ(times, once);
  }
}

TEST(DocumentsToScore, AreAShareRoundedAndAtLeastOne) {
  EXPECT_EQ(documents_to_score(48, 1), 48);
  EXPECT_EQ(documents_to_score(48, 0.5), 24);
  EXPECT_EQ(documents_to_score(10, 0.26), 3);
  EXPECT_EQ(documents_to_score(10, 0.001), 1);
  EXPECT_EQ(documents_to_score(0, 0.5), 0);
}

// The reference case: its documents in the split's order, and the script's batches.
const Documents kReference{
    {0, 188},     {187, 97},    {283, 1291},  {1573, 5},    {1577, 54},   {1630, 413}, {2042, 393},
    {2434, 281},  {2714, 164},  {2877, 252},  {3128, 43},   {3170, 131},  {3300, 318}, {3617, 394},
    {4010, 72},   {4081, 35},   {4115, 100},  {4214, 49},   {4262, 64},   {4325, 379}, {4703, 154},
    {4856, 241},  {5096, 1028}, {6123, 96},   {6218, 461},  {6678, 719},  {7396, 101}, {7496, 72},
    {7567, 1211}, {8777, 154},  {8930, 86},   {9015, 363},  {9377, 80},   {9456, 538}, {9993, 40},
    {10032, 319}, {10350, 386}, {10735, 105}, {10839, 154}, {10992, 192}, {11183, 66}, {11248, 30},
    {11277, 63},  {11339, 70},  {11408, 76},  {11483, 314}, {11796, 176}, {11971, 574}};

std::vector<std::int64_t> lengths_of(const Documents& documents) {
  std::vector<std::int64_t> lengths;
  for (const auto& document : documents) lengths.push_back(document.length);
  return lengths;
}

TEST(BatchByLength, TakesTheBatchesOfTheReferenceLongestFirst) {
  const std::vector<std::vector<std::int64_t>> expected{
      {1028, 1211, 1291},        {413, 461, 538, 574, 719}, {363, 379, 386, 393, 394},
      {252, 281, 314, 318, 319}, {164, 176, 188, 192, 241}, {105, 131, 154, 154, 154},
      {86, 96, 97, 100, 101},    {70, 72, 72, 76, 80},      {49, 54, 63, 64, 66},
      {5, 30, 35, 40, 43}};
  const auto batches = batch_by_length(kReference, 5);
  ASSERT_EQ(batches.size(), expected.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(lengths_of(batches[i].documents), expected[i]);
    EXPECT_EQ(batches[i].index, 9 - static_cast<std::int64_t>(i));
  }
  // Documents of equal length keep the split's order.
  EXPECT_EQ(batches[5].documents[2].start, 4703);
  EXPECT_EQ(batches[5].documents[4].start, 10839);
}

TEST(BatchByLength, OfOneLengthKeepTheSplitsOrder) {
  const auto batches = batch_by_length({{0, 4}, {3, 4}, {6, 4}}, 2);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].documents, (Documents{{0, 4}, {3, 4}}));
  EXPECT_EQ(batches[1].documents, (Documents{{6, 4}}));
  EXPECT_TRUE(batch_by_length({}, 2).empty());
}

TEST(Phases, BeginWhereTheReferenceBeginsThemAndTrainOnItsShortestDocuments) {
  const auto boundaries = phase_boundaries(20, 2);
  EXPECT_EQ(boundaries, (std::vector<std::int64_t>{10, 20}));
  const auto phases = plan_phases(batch_by_length(kReference, 5), boundaries);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].batches, 3);
  EXPECT_EQ(phases[0].scored, 13);
  EXPECT_EQ(phases[0].training, (Documents{{9015, 363},
                                           {4325, 379},
                                           {10350, 386},
                                           {2042, 393},
                                           {3617, 394},
                                           {1630, 413},
                                           {6218, 461},
                                           {9456, 538},
                                           {11971, 574},
                                           {6678, 719}}));
  EXPECT_EQ(phases[1].batches, 5);
  EXPECT_EQ(phases[1].scored, 23);
  ASSERT_EQ(phases[1].training.size(), 20U);
  EXPECT_EQ(phases[1].training.front(), (DocumentSpan{2714, 164}));
  EXPECT_EQ(phases[1].training.back(), (DocumentSpan{6678, 719}));
}

TEST(Phases, OfTheRecordHaveItsBoundaries) {
  EXPECT_EQ(phase_boundaries(2500, 3), (std::vector<std::int64_t>{833, 1666, 2500}));
}

TEST(Phases, AreNoneWithoutPrefixDocumentsAndAtMostOneAfterABatch) {
  EXPECT_TRUE(phase_boundaries(0, 3).empty());
  const auto batches = batch_by_length({{0, 9}, {8, 3}, {10, 3}, {12, 3}}, 3);
  ASSERT_EQ(batches.size(), 2U);  // batches of 1 and 3 documents
  const auto boundaries = phase_boundaries(1, 3);
  EXPECT_EQ(boundaries, (std::vector<std::int64_t>{0, 0, 1}));
  const auto phases = plan_phases(batches, boundaries);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].batches, 1);
  EXPECT_TRUE(phases[0].training.empty());
  EXPECT_EQ(phases[1].batches, 2);
}

TEST(JoinDocuments, HaveOneBosBetweenThemOrAsTheReferenceTwo) {
  const std::vector<NarrowId> tokens{1, 5, 6, 1, 7, 1, 8, 9};
  const std::vector<TokenId> wide(tokens.begin(), tokens.end());
  EXPECT_EQ(find_documents(wide, kBos), find_documents(tokens, kBos));
  const Documents documents{{3, 3}, {5, 3}, {0, 4}};
  EXPECT_EQ(join_documents(tokens, documents, kBos, /*repeat_bos=*/true),
            (std::vector<TokenId>{1, 7, 1, 1, 8, 9, 1, 5, 6, 1}));
  EXPECT_EQ(join_documents(tokens, documents, kBos, /*repeat_bos=*/false),
            (std::vector<TokenId>{1, 7, 1, 8, 9, 1, 5, 6, 1}));
  EXPECT_EQ(join_documents(wide, documents, kBos, false),
            join_documents(tokens, documents, kBos, false));
  EXPECT_TRUE(join_documents(tokens, {}, kBos, false).empty());
}

}  // namespace
}  // namespace tg
