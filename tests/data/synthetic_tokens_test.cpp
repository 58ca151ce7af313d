#include "data/synthetic_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "tests/data/shards.h"

namespace tg {
namespace {

using Tokens = std::vector<std::uint16_t>;

Tokens read(const TokenSource& source, std::int64_t offset, std::size_t count) {
  Tokens tokens(count);
  source.read_at(offset, tokens);
  return tokens;
}

std::vector<double> counts_of(const Tokens& tokens, std::size_t vocab_size) {
  std::vector<double> counts(vocab_size);
  for (const std::uint16_t token : tokens) ++counts.at(token);
  return counts;
}

TEST(SyntheticTokens, HaveFrequenciesAfterZipfsLaw) {
  constexpr int samples = 2'000'000;
  for (const int vocab_size : {1, 2, 3, 1024}) {
    const SyntheticTokens source("train", vocab_size, 5);
    auto counts = counts_of(read(source, 123'456, samples), static_cast<std::size_t>(vocab_size));
    std::sort(counts.begin(), counts.end(), std::greater());
    double sum = 0;
    for (int rank = 0; rank < vocab_size; ++rank) sum += 1.0 / (rank + 3);
    double chi_squared = 0;
    for (int rank = 0; rank < vocab_size; ++rank) {
      const double expected = samples / (rank + 3.0) / sum;
      const double off = counts[static_cast<std::size_t>(rank)] - expected;
      // Sorting may swap neighbours among the rare tokens, which can only reduce the sum.
      chi_squared += off * off / expected;
    }
    EXPECT_LT(chi_squared, vocab_size + 4 * std::sqrt(2.0 * vocab_size)) << vocab_size;
  }
}

TEST(SyntheticTokens, StayBelowTheVocabularyAndUseAllOfIt) {
  for (const std::size_t vocab_size : {1U, 2U, 7U, 1000U}) {
    const auto source = SyntheticTokens("val", static_cast<int>(vocab_size), 1);
    const auto counts = counts_of(read(source, 0, 100'000 + 100 * vocab_size), vocab_size);
    EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 0) << vocab_size;
  }
  const auto tokens = read(SyntheticTokens("train", 65536, 1), 0, 500'000);
  EXPECT_GT(*std::max_element(tokens.begin(), tokens.end()), 65000);
}

TEST(SyntheticTokens, AreTheSameFromAnyOffsetInAnyCutAndOnAnyThread) {
  const SyntheticTokens source("train", 512, 7), again("train", 512, 7);
  const Tokens whole = read(source, 1'000'000'000, 10'000);
  EXPECT_EQ(read(again, 1'000'000'000, 10'000), whole);
  Tokens cut(whole.size());
  std::vector<std::thread> threads;
  for (std::size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (std::size_t part = first; part < 100; part += 4) {
        source.read_at(1'000'000'000 + static_cast<std::int64_t>(100 * part),
                       std::span(cut).subspan(100 * part, 100));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cut, whole);
}

// Two independent draws agree with the sum of the squared probabilities: about 1 in 50 here.
TEST(SyntheticTokens, DifferBySeedAndSplit) {
  const Tokens base = read(SyntheticTokens("train", 512, 7), 0, 10'000);
  for (const auto& other : {SyntheticTokens("val", 512, 7), SyntheticTokens("train", 512, 8),
                            SyntheticTokens("train", 512, 0)}) {
    const Tokens tokens = read(other, 0, base.size());
    const int same = std::inner_product(base.begin(), base.end(), tokens.begin(), 0, std::plus(),
                                        std::equal_to());
    EXPECT_LT(same, 500) << other.pattern();
  }
}

TEST(SyntheticTokens, ShareTheMostFrequentIdsBetweenTheSplits) {
  const auto most_frequent = [](std::string_view split, std::uint64_t seed) {
    const auto counts = counts_of(read(SyntheticTokens(split, 512, seed), 0, 200'000), 512);
    return std::max_element(counts.begin(), counts.end()) - counts.begin();
  };
  EXPECT_EQ(most_frequent("train", 3), most_frequent("val", 3));
  EXPECT_NE(most_frequent("train", 3), most_frequent("train", 4));
}

TEST(SyntheticDocuments, EachBeginsWithBosAndHasALogNormalLength) {
  constexpr std::size_t count = 40'000'000;
  const auto tokens = read(SyntheticDocuments("train", 1024, 5, 3), 0, count);
  ASSERT_EQ(tokens[0], 3);
  std::vector<double> lengths;
  for (std::size_t i = 1, begin = 0; i < count; ++i) {
    if (tokens[i] != 3) continue;
    lengths.push_back(static_cast<double>(i - begin));
    begin = i;
  }
  const auto n = static_cast<double>(lengths.size());
  double sum = 0, logs = 0, squares = 0;
  for (const double length : lengths) {
    sum += length;
    logs += std::log(length);
    squares += std::log(length) * std::log(length);
  }
  // From 42,000 draws; block ends cut one document in a thousand.
  EXPECT_NEAR(sum / n, 957, 20);
  EXPECT_NEAR(logs / n, std::log(500), 0.02);
  EXPECT_NEAR(std::sqrt(squares / n - logs * logs / n / n), 1.14, 0.02);
  std::ranges::nth_element(lengths, lengths.begin() + std::ssize(lengths) / 2);
  EXPECT_NEAR(lengths[lengths.size() / 2], 500, 12);
  EXPECT_GE(*std::ranges::min_element(lengths), 2);
}

TEST(SyntheticDocuments, AreTheZipfTokensOfTheOtherIds) {
  const auto documents = read(SyntheticDocuments("val", 16, 5, 3), 777, 100'000);
  const auto zipf = read(SyntheticTokens("val", 16, 5, /*without=*/3), 777, 100'000);
  for (std::size_t i = 0; i < zipf.size(); ++i) {
    ASSERT_NE(zipf[i], 3);
    ASSERT_TRUE(documents[i] == 3 || documents[i] == zipf[i]) << i;
  }
  EXPECT_EQ(counts_of(zipf, 16).size() - 1, std::set(zipf.begin(), zipf.end()).size());
}

TEST(SyntheticDocuments, AreTheSameFromAnyOffsetAndBeginAgainAtTheirEnd) {
  const SyntheticDocuments source("train", 512, 7, 1), again("train", 512, 7, 1);
  constexpr std::int64_t begin = (3 << 20) - 5000;  // around a block's end
  const Tokens whole = read(source, begin, 10'000);
  EXPECT_EQ(whole[5000], 1);
  for (const std::size_t part : {1UL, 77UL, 4999UL}) {
    Tokens cut(whole.size());
    for (std::size_t at = 0; at < cut.size(); at += part) {
      again.read_at(begin + static_cast<std::int64_t>(at),
                    std::span(cut).subspan(at, std::min(part, cut.size() - at)));
    }
    EXPECT_EQ(cut, whole) << part;
  }
  const auto end = source.tokens(0);
  const Tokens around = read(source, end - 3000, 6000);
  EXPECT_EQ(Tokens(around.begin() + 3000, around.end()), read(source, 0, 3000));
  EXPECT_EQ(read(source, 2 * end + begin, 10'000), whole);
  for (const auto& other :
       {SyntheticDocuments("val", 512, 7, 1), SyntheticDocuments("train", 512, 8, 1)}) {
    EXPECT_NE(read(other, begin, 10'000), whole) << other.pattern();
  }
}

TEST(SyntheticTokens, AreOneShardThatBeginsAgainAtItsEnd) {
  const SyntheticTokens train("train", 512, 7), val("val", 512, 7);
  EXPECT_EQ(train.pattern(), "synthetic:zipf (train)");
  EXPECT_EQ(train.path(0), "synthetic:zipf (train)");
  EXPECT_EQ(train.count(), 1);
  EXPECT_EQ(train.start(0), 0);
  EXPECT_EQ(train.tokens(0), 10'000'000'000);
  EXPECT_EQ(val.tokens(0), 10'485'761);
  EXPECT_EQ(val.tokens_up_to(1000), 1000);
  EXPECT_EQ(val.tokens_up_to(20'000'000), 10'485'761);
  for (const SyntheticTokens* source : {&train, &val}) {
    const Tokens begin = read(*source, 0, 50);
    Tokens around = read(*source, source->tokens(0) - 30, 80);
    EXPECT_EQ(Tokens(around.begin() + 30, around.end()), begin);
    EXPECT_EQ(read(*source, 3 * source->tokens(0), 50), begin);
  }
}

}  // namespace
}  // namespace tg
