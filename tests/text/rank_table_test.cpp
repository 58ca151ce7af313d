// Tables of ranks, their patterns and special pieces, and which token begins a document.
#include <fmt/format.h>

#include "tests/text/byte_level_bpe_fixture.h"

namespace tg {
namespace {

using test::encode;
using test::error_of;
using test::expect_part;
using test::expect_start;
using test::Ids;
using test::refusal;
using test::TempDir;
using test::write_file;

TEST(RankTable, RefusesALineByItsNumber) {
  const std::string expected = " line 2: expected a piece in base64, a space and its rank";
  for (const char* line :
       {"YQ==", "YQ== x", "YQ== 1 2", "YQ 1", "Y*== 1", " 1", "==== 1", "YQ== -1"})
    expect_start(refusal("small.tiktoken", std::string("YQ== 0\n") + line + "\n"), expected);
  expect_start(refusal("file", "YQ== 0\nYg== 2\n"),
               " line 2: expected rank 1, since ranks are ids");
  expect_start(refusal("file", "YQ== 0\nYQ== 1\n"),
               " line 2 makes a piece that is there already, id 0");
  expect_start(refusal("file", "YQ== 0\n"), ": the byte 0x00 is no piece");
}

// A table of ranks of the 256 bytes in their order, then of these pieces.
std::string rank_table(const std::vector<std::string>& pieces, std::size_t ranks = 0) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string table;
  std::size_t rank = 0;
  const auto add = [&](std::string_view piece) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < piece.size() ? static_cast<unsigned char>(piece[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      table += i > piece.size() ? '=' : digits[bits >> (18 - 6 * i) & 63];
    table += fmt::format(" {}\n", rank++);
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string{static_cast<char>(byte)});
  for (const auto& piece : pieces) add(piece);
  // Pieces of three bytes that no text has.
  for (unsigned i = 0; rank < ranks; ++i)
    add(std::string{static_cast<char>(0xf8 + i / 65536), static_cast<char>(i / 256),
                    static_cast<char>(i)});
  return table;
}

Tokenizer open_table(const TempDir& dir, const std::string& table, const TokenizerChoices& choices,
                     const std::string& name = "mine.tiktoken") {
  write_file(dir / name, table);
  return Tokenizer(dir / name, 0, /*caseops=*/false, choices);
}

TEST(RankTable, IsReadWithThePatternThatIsStated) {
  const TempDir dir;
  const auto table = rank_table({"12", "123", "a1"});
  const auto ids = [&](const std::string& pattern, std::string_view text) {
    return encode(open_table(dir, table, {.pattern = pattern}), text);
  };
  EXPECT_EQ(ids("gpt2", "a1234"), (Ids{'a', 257, '4'}));
  EXPECT_EQ(ids("llama3", "1234"), (Ids{257, '4'}));
  EXPECT_EQ(ids("cl100k", "12 12"), (Ids{256, ' ', 256}));
  EXPECT_EQ(ids("qwen2", "123"), (Ids{'1', '2', '3'}));
  EXPECT_EQ(ids("o200k", "a123"), (Ids{'a', 257}));
  EXPECT_EQ(ids(R"([^\s]+|\s+)", "a1 "), (Ids{258, ' '}));
  const auto tokenizer = open_table(dir, table, {.pattern = "qwen2"});
  EXPECT_EQ(tokenizer.format(), "bpe");
  EXPECT_EQ(tokenizer.bos_id(), 259);
  EXPECT_EQ(tokenizer.piece(259), "<|endoftext|>");
}

// A pattern whose words have spaces within them: cut texts would have other words.
TEST(RankTable, IsTokenisedInPartsWherePatternsLetIt) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 500; ++i) text += "word 1 of a line, ";
  for (const auto& [pattern, parts] : {std::pair{"gpt2", true},
                                       {"cl100k", true},
                                       {"o200k", true},
                                       {"[^\\n]+|\\n+", false},
                                       {"[^,]+|, ", false}}) {
    const auto tokenizer = open_table(dir, rank_table({"d 1", " 1"}), {.pattern = pattern});
    EXPECT_EQ(tokenizer.split(text, 100).size() > 1, parts) << pattern;
    Ids joined;
    for (const auto part : tokenizer.split(text, 100)) tokenizer.encode_continued(part, joined);
    EXPECT_EQ(joined, encode(tokenizer, text)) << pattern;
  }
}

TEST(RankTable, WithoutAPatternIsRefusedWithWhatToSet) {
  const TempDir dir;
  const auto refused = error_of(ExitCode::config, [&] { open_table(dir, rank_table({}), {}); });
  expect_start(refused, "tokenizer " + dir / "mine.tiktoken" +
                            ": a table of 256 ranks does not say how text is split into words");
  expect_part(refused, "set TOKENIZER_PATTERN (make_shards --pattern)");
  for (const auto& [pattern, found] : {std::pair{"(", "does not compile"}, {"\\w+", "has \\w"}}) {
    const auto wrong = error_of(ExitCode::bad_data,
                                [&] { open_table(dir, rank_table({}), {.pattern = pattern}); });
    expect_start(wrong, "TOKENIZER_PATTERN");
    expect_part(wrong, found);
  }
  write_file(dir / "vocab.bpe", "#version: 0.2\n");
  expect_start(error_of(ExitCode::config,
                        [&] { Tokenizer(dir / "vocab.bpe", 0, false, {.pattern = "gpt2"}); }),
               "TOKENIZER_PATTERN is for a .tiktoken table");
}

TEST(RankTable, OfAPublishedNameAndSizeHasItsPatternAndSpecialPieces) {
  const TempDir dir;
  const auto gpt2 = open_table(dir, rank_table({"12"}, 50'256), {}, "r50k_base.tiktoken");
  EXPECT_EQ(gpt2.format(), "gpt2");
  EXPECT_EQ(gpt2.bos_id(), 50'256);
  const auto table = rank_table({"12"}, 100'256);
  const auto cl100k = open_table(dir, table, {}, "cl100k_base.tiktoken");
  EXPECT_EQ(cl100k.format(), "bpe");
  EXPECT_EQ(cl100k.pieces(), 100'277);
  EXPECT_EQ(cl100k.bos_id(), 100'257);
  EXPECT_EQ(cl100k.kind(100'256), PieceKind::unused);
  EXPECT_EQ(cl100k.piece(100'276), "<|endofprompt|>");
  EXPECT_EQ(encode(cl100k, "12").size(), 1U);
  error_of(ExitCode::config, [&] { open_table(dir, table, {}); });  // of another name
}

TEST(Tokenizer, PutsTheChosenTokenBeforeDocuments) {
  const TempDir dir;
  const auto open = [&](const std::string& start) {
    return open_table(dir, rank_table({}), {.pattern = "gpt2", .document_start = start});
  };
  EXPECT_EQ(open("auto").bos_id(), 256);
  EXPECT_EQ(open("none").bos_id(), -1);
  EXPECT_EQ(open("256").bos_id(), 256);
  for (const char* wrong : {"", "no", "-1", "256x", "99999999999"})
    expect_part(error_of(ExitCode::usage, [&] { open(wrong); }),
                "expected auto, none or a token's id");
  expect_start(error_of(ExitCode::config, [&] { open("97"); }),
               "DOCUMENT_START=97 is no special piece of tokenizer");
  expect_part(error_of(ExitCode::config, [&] { open("257"); }), "found no piece");
}

TEST(Tokenizer, DoesNotRunAPickleAndSaysHowToConvertIt) {
  for (const char* name : {"tokenizer.pkl", "other.tiktoken"}) {
    const auto message = refusal(name, "\x80\x04\x95\x10\x00", ExitCode::bad_data);
    expect_start(message, " is a pickle");
    expect_part(message, "pickle.load(open('");
    expect_part(message, "then set TOKENIZER_PATTERN");
  }
}

}  // namespace
}  // namespace tg
