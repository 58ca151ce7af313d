// Byte-level BPEs encode as Python's do, from lists of merges and tables of ranks.
#include "text/byte_level_bpe.h"

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "data/byte_count.h"
#include "tests/text/byte_level_bpe_fixture.h"
#include "tests/text/documents.h"
#include "text/byte_spelling.h"

namespace tg {
namespace {

using test::encode;
using test::error_of;
using test::expect_part;
using test::expect_start;
using test::Ids;
using test::read_file;
using test::refusal;
using test::TempDir;
using test::write_file;

const nlohmann::json& told() {
  static const auto all =
      nlohmann::json::parse(read_file(std::string(TEST_DATA_DIR) + "/gpt2_tokens.json"));
  return all;
}

// One vocabulary in both of its file formats.
class AgainstPythons : public testing::TestWithParam<const char*> {
 protected:
  Tokenizer open(const std::string& name, int vocab_size = 0) const {
    write_file(dir / name, told()[GetParam()].get<std::string>());
    return Tokenizer(dir / name, vocab_size, /*caseops=*/false,
                     {.pattern = is_table() ? "gpt2" : ""});
  }
  bool is_table() const { return GetParam() == std::string("rank_table"); }
  TempDir dir;
};

TEST_P(AgainstPythons, EncodesEveryTextAlikeAndDecodesItToItself) {
  const auto tokenizer = open("vocabulary");
  EXPECT_EQ(tokenizer.format(), is_table() ? "bpe" : "gpt2");
  EXPECT_EQ(tokenizer.pieces(), 701);
  EXPECT_EQ(tokenizer.bos_id(), 700);
  for (const auto& sample : told()["samples"]) {
    const auto text = sample["text"].get<std::string>();
    const auto ids = encode(tokenizer, text);
    EXPECT_EQ(ids, sample["ids"].get<Ids>()) << sample["text"];
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
}

TEST_P(AgainstPythons, EncodesThousandsOfDocumentsAlikeAndCountsTheirBytes) {
  EXPECT_EQ(test::digest_of_documents(open("vocabulary")), told()["documents"]);
}

TEST_P(AgainstPythons, CountsTheBytesOfEachPieceAndOfEveryTextWithItsSpaces) {
  const auto tokenizer = open("vocabulary");
  const auto table = make_byte_table(tokenizer, 704);
  auto counts = told()["byte_counts"].get<std::vector<std::int16_t>>();
  counts.resize(704);
  EXPECT_EQ(table.base_bytes, counts);
  EXPECT_EQ(table.leading_space, std::vector<std::uint8_t>(704));
  for (const auto& sample : told()["samples"]) {
    Ids ids{700};
    const auto text = sample["text"].get<std::string>();
    tokenizer.encode(text, ids);
    EXPECT_EQ(count_bytes(table, ids), std::ssize(text));
  }
}

TEST_P(AgainstPythons, EncodesPartsAsTheWhole) {
  const auto tokenizer = open("vocabulary");
  std::string text;
  for (const auto& sample : told()["samples"]) text += sample["text"].get<std::string>() + " word ";
  const auto whole = encode(tokenizer, text);
  for (const std::size_t size : {1, 50, 999}) {
    const auto parts = tokenizer.split(text, size);
    EXPECT_GT(parts.size(), text.size() / (size + 2000));
    Ids joined;
    for (const auto part : parts) tokenizer.encode_continued(part, joined);
    EXPECT_EQ(joined, whole) << size;
  }
}

TEST_P(AgainstPythons, KeepsBytesThatAreNoUtf8) {
  const auto tokenizer = open("vocabulary");
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 40, ' ');
    for (auto& byte : bytes) byte = static_cast<char>(random() % 3 == 0 ? random() : 'a');
    EXPECT_EQ(tokenizer.decode(encode(tokenizer, bytes)), bytes);
  }
}

TEST_P(AgainstPythons, MayBePaddedButNotCut) {
  EXPECT_EQ(open("vocabulary", 701).pieces(), 701);
  EXPECT_EQ(open("vocabulary", 704).pieces(), 701);
  expect_start(error_of(ExitCode::config, [&] { open("vocabulary", 700); }),
               "VOCAB_SIZE=700 does not match tokenizer vocab_size=701");
}

// One of a million letters has as many merges: without a queue, hours.
TEST_P(AgainstPythons, TakesTimeInProportionToALongWord) {
  const auto tokenizer = open("vocabulary");
  for (const auto& word : {std::string(1'000'000, 'e'), std::string(1'000'000, ' ')}) {
    EXPECT_EQ(tokenizer.decode(encode(tokenizer, word)), word);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, AgainstPythons, testing::Values("merge_list", "rank_table"));

Ids ids_by_merges(const std::string& merges, std::string_view text) {
  const TempDir dir;
  write_file(dir / "vocab.bpe", "#version: 0.2\n" + merges);
  return encode(Tokenizer(dir / "vocab.bpe"), text);
}

// By hand: 'a' is id 64 ('!' is 0), 'b' 65, 'c' 66, a space 220 (the 33rd of the others).
TEST(ByteLevelBpe, MergesTheEarliestPairFirstAndFromLeftToRight) {
  EXPECT_EQ(ids_by_merges("", "ab c"), (Ids{64, 65, 220, 66}));
  EXPECT_EQ(ids_by_merges("b c\na b\n", "abc"), (Ids{64, 256}));
  EXPECT_EQ(ids_by_merges("a b\nb c\n", "abc"), (Ids{256, 66}));
  EXPECT_EQ(ids_by_merges("a a\n", "aaaaa"), (Ids{256, 256, 64}));
  EXPECT_EQ(ids_by_merges("a a\naa a\n", "aaaaa"), (Ids{256, 257}));
  EXPECT_EQ(ids_by_merges("\u0120 a\n", "b a  a"), (Ids{65, 256, 220, 256}));
  // A piece that its own merges do not make.
  EXPECT_EQ(ids_by_merges("a b\nb c\na bc\n", "abc"), (Ids{256, 66}));
}

TEST(ByteLevelBpe, TreatsCarriageReturnsAndAMissingLastEndAsLines) {
  EXPECT_EQ(ids_by_merges("a b\r\nab c", "abc"), (Ids{257}));
}

TEST(MergeList, RefusesALineByItsNumber) {
  const std::string head = "#version: 0.2\n";
  expect_start(refusal("merges.txt", "a b\n"),
               " line 1: expected \"#version: 0.2\", found \"a b\"");
  for (const char* line : {"ab", "a", "a b c", "a  b", " a b", "a bc", "a ", "", "a \u4e00",
                           "a \xff", "a \x01", "a \x1b[m"}) {
    expect_start(refusal("file", head + "a b\n" + line + "\n"),
                 " line 3: expected two pieces that earlier lines make");
  }
  expect_part(refusal("file", head + "a \x1b[m\n"), "found \"a \\x1b[m\"");
  expect_start(refusal("file", head + "a b\na b\n"),
               " line 3 makes a piece that is there already, id 256");
  std::string doubling = head, piece = "a";
  for (; piece.size() <= 1024; piece += piece) doubling += piece + " " + piece + "\n";
  expect_start(refusal("file", doubling), " line 12 makes a piece of 2048 bytes");
}

TEST(MergeList, RefusesMorePiecesThanAVocabularyMayHave) {
  std::string merges = "#version: 0.2\n";
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::vector<std::string> two;
  for (const char a : letters)
    for (const char b : letters) {
      two.push_back({a, b});
      merges += std::string{a, ' ', b, '\n'};
    }
  for (std::size_t i = 0; i < 1'046'000; ++i)
    merges += two[i / two.size()] + " " + two[i % two.size()] + "\n";
  expect_start(refusal("file", merges, ExitCode::config),
               " line 1048321 is too much for a vocabulary (at most 1048576 pieces)");
}

// The vocab.json of the test vocabulary with three special pieces in front, as some tokenizers are
// trained, one unused id behind them, and all others in the reverse order.
nlohmann::json published_ids(const Tokenizer& usual) {
  nlohmann::json ids = {{"<s>", 0}, {"<pad>", 1}, {"<|endoftext|>", 2}};
  for (int id = 0; id < 700; ++id) ids[spelled(usual.piece(id))] = 703 - id;
  return ids;
}

TEST(MergeListWithIds, HasThoseThatArePublishedBesideIt) {
  const TempDir dir;
  write_file(dir / "usual", told()["merge_list"].get<std::string>());
  const Tokenizer usual(dir / "usual");
  for (const auto& [list, beside] : {std::pair{"merges.txt", "vocab.json"},
                                     {"vocab.bpe", "encoder.json"},
                                     {"my-merges.txt", "my-vocab.json"}}) {
    write_file(dir / list, told()["merge_list"].get<std::string>());
    write_file(dir / beside, published_ids(usual).dump());
    const Tokenizer tokenizer(dir / list, 704);
    EXPECT_EQ(tokenizer.pieces(), 704);
    EXPECT_EQ(tokenizer.bos_id(), 2);
    for (const int id : {0, 1, 2}) EXPECT_EQ(tokenizer.kind(id), PieceKind::control);
    EXPECT_EQ(tokenizer.kind(3), PieceKind::unused);
    const auto table = make_byte_table(tokenizer, 704);
    for (const auto& sample : told()["samples"]) {
      const auto text = sample["text"].get<std::string>();
      Ids ids{2}, expected{2};
      for (const auto id : sample["ids"].get<Ids>())
        expected.push_back(static_cast<TokenId>(703 - id));
      tokenizer.encode(text, ids);
      EXPECT_EQ(ids, expected) << text;
      EXPECT_EQ(tokenizer.decode(ids), text);
      EXPECT_EQ(count_bytes(table, ids), std::ssize(text));
    }
  }
}

nlohmann::json ids_of_bytes() {
  const TempDir dir;
  write_file(dir / "list", "#version: 0.2\n");
  const Tokenizer bytes(dir / "list");
  nlohmann::json ids;
  for (int id = 0; id < 256; ++id) ids[spelled(bytes.piece(id))] = id;
  return ids;
}

// By hand: "ab" + "c" comes first, though "bc" has the lesser id; both ways make one piece.
TEST(MergeListWithIds, MergesInTheOrderOfLinesAndMayMakeAPieceTwice) {
  const TempDir dir;
  auto ids = ids_of_bytes();
  ids.update({{"bc", 256}, {"ab", 257}, {"abc", 258}});
  write_file(dir / "vocab.json", ids.dump());
  write_file(dir / "merges.txt", "#version: 0.2\na b\nb c\nab c\na bc\n");
  const Tokenizer tokenizer(dir / "merges.txt");
  EXPECT_EQ(encode(tokenizer, "abc bc"), (Ids{258, 220, 256}));
  EXPECT_EQ(encode(tokenizer, "abbc"), (Ids{257, 256}));
  EXPECT_EQ(tokenizer.bos_id(), -1);
}

// In abc the merge of b and c comes first, and a and bc do not merge.
TEST(MergeListWithIds, RanksThePiecesThatMergesMakeByTheirFirstMerge) {
  const TempDir dir;
  auto ids = ids_of_bytes();
  ids.update({{"bc", 300}, {"ab", 299}, {"abc", 298}, {"cbc", 297}, {"cb", 296}});
  write_file(dir / "vocab.json", ids.dump());
  write_file(dir / "merges.txt", "#version: 0.2\nb c\na b\nc bc\nab c\nc b\ncb c\n");
  const Tokenizer tokenizer(dir / "merges.txt");
  const auto& bpe = dynamic_cast<const ByteLevelBpe&>(tokenizer.model());
  EXPECT_TRUE(bpe.has_gpt2_words());
  std::map<std::string, std::pair<TokenId, std::uint32_t>> merged;
  std::size_t bytes = 0;
  for (const auto& piece : bpe.ranked_pieces()) {
    if (piece.bytes.size() > 1) merged[piece.bytes] = {piece.id, piece.rank};
    bytes += piece.bytes.size() == 1;
  }
  EXPECT_EQ(bytes, 256u);
  EXPECT_EQ(merged, (decltype(merged){
                        {"bc", {300, 2}}, {"ab", {299, 3}}, {"cbc", {297, 4}}, {"cb", {296, 6}}}));
}

TEST(MergeListWithIds, ThatDoNotFitTogetherAreRefusedByBothNames) {
  const TempDir dir;
  const auto message = [&](const std::string& ids, ExitCode code = ExitCode::bad_data) {
    write_file(dir / "merges.txt", "#version: 0.2\na b\n");
    write_file(dir / "vocab.json", ids);
    return error_of(code, [&] { Tokenizer{dir / "merges.txt"}; });
  };
  auto ids = ids_of_bytes();
  expect_start(message(ids.dump()), "tokenizer " + dir / "merges.txt" +
                                        ": line 2's \"a b\" is no piece in " + dir / "vocab.json" +
                                        " beside it");
  ids["ab"] = 256;
  for (int i = 0; i < 65; ++i) ids[fmt::format("piece{}", i)] = 300 + i;
  expect_part(message(ids.dump()), "no line makes 65 of the pieces in " + dir / "vocab.json");
  ids["ab"] = 255;
  expect_part(message(ids.dump()), "have the id 255");
  ids["ab"] = 1 << 20;
  expect_part(message(ids.dump(), ExitCode::config),
              "has the id 1048576, too much for a vocabulary (at most 1048576 pieces)");
  ids["ab"] = 803333;
  expect_part(
      message(ids.dump()),
      "\"ab\" has the id 803333, although there are 322 pieces (expected an id below 262466)");
  for (const auto& value : {nlohmann::json(-1), nlohmann::json("1"), nlohmann::json()}) {
    ids["ab"] = value;
    expect_part(message(ids.dump()), "\"ab\" is no piece with an id");
  }
  for (const char* other : {"[]", "{", "", "{\"a\": {\"b\": [[[[1]]]]}}"})
    expect_part(message(other), "expected a JSON object of pieces and their ids");
  expect_part(message("{\"a\": 1}"), "the byte 0x21 is no piece");
}

TEST(Tokenizer, SaysThatMergesAreNeededBesideAJsonVocabulary) {
  expect_part(refusal("encoder.json", R"({"!": 0})"),
              "JSON without a model (expected a tokenizer.json");
}

}  // namespace
}  // namespace tg
