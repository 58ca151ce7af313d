#include "text/tokenizer.h"

#include <sentencepiece_processor.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "data/byte_count.h"
#include "tests/text/documents.h"
#include "text/model_proto.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::read_file;
using test::TempDir;
using test::write_file;
using Ids = std::vector<TokenId>;
using Counts = std::vector<std::uint16_t>;

const std::string fixtures = std::string(TEST_DATA_DIR) + "/";
const std::string bpe_path = fixtures + "data_bpe.model";
const std::string caseops_path = fixtures + "data_caseops.model";

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

// data_caseops is CaseOps' tokenizer.
class AgainstPython : public testing::TestWithParam<std::string> {
 protected:
  nlohmann::json told = nlohmann::json::parse(read_file(fixtures + "data_tokens.json"))[GetParam()];
  Tokenizer tokenizer{fixtures + GetParam() + ".model", 0, GetParam() == "data_caseops"};
};

TEST_P(AgainstPython, EncodesAndDecodesAlike) {
  for (const auto& sample : told["samples"]) {
    Ids ids{static_cast<TokenId>(tokenizer.bos_id())};
    tokenizer.encode(sample["text"].get<std::string>(), ids);
    EXPECT_EQ(ids, sample["ids"].get<Ids>()) << sample["text"];
    if (sample.contains("decoded")) {
      EXPECT_EQ(tokenizer.decode(ids), sample["decoded"].get<std::string>());
    }
  }
}

class DocumentsAgainstPython : public AgainstPython {};

TEST_P(DocumentsAgainstPython, HaveTheSameIdsAndBytes) {
  EXPECT_EQ(test::digest_of_documents(tokenizer), told["documents"]);
}

TEST_P(AgainstPython, CountsTheBytesOfEachPieceAndOfTheNormalisedText) {
  const ByteTable table = make_byte_table(tokenizer, 100);
  EXPECT_EQ(table.base_bytes, told["base_bytes"].get<std::vector<std::int16_t>>());
  EXPECT_EQ(table.leading_space, told["leading_space"].get<std::vector<std::uint8_t>>());
  EXPECT_EQ(table.boundary, told["boundary"].get<std::vector<std::uint8_t>>());
  for (const auto& sample : told["samples"]) {
    auto ids = sample["ids"].get<Ids>();
    ids.push_back(ids.front());  // the next document's
    EXPECT_EQ(count_bytes(table, ids), sample["bytes"].get<std::int64_t>()) << sample["text"];
  }
}

TEST_P(AgainstPython, CountsTheBytesOfTheTextThatATokenStandsFor) {
  for (const auto& sample : told["samples"]) {
    Ids ids{static_cast<TokenId>(tokenizer.bos_id())};
    Counts bytes{0};
    tokenizer.encode_counted(sample["text"].get<std::string>(), false, ids, bytes);
    EXPECT_EQ(ids, sample["ids"].get<Ids>());
    EXPECT_EQ(bytes, sample["span_bytes"].get<Counts>()) << sample["text"];
  }
}

// Where a window begins changes no token's bytes.
TEST_P(AgainstPython, CountsATokenByTheThreeBeforeIt) {
  const ByteTable table = make_byte_table(tokenizer, 0);
  Ids ids;
  for (const auto& sample : told["samples"]) {
    const auto more = sample["ids"].get<Ids>();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  ByteCounter counter(table);
  std::vector<int> counts;
  for (const auto id : ids) counts.push_back(counter.next(id));
  const std::span all(ids);
  for (std::size_t begin = 0; begin + 1 < ids.size(); ++begin) {
    auto before = std::min<std::size_t>(begin, ByteCounter::context - 1);
    while (before < begin && table.may_escape(all[begin - before])) ++before;
    EXPECT_EQ(count_bytes(table, all.subspan(begin, 2), all.subspan(begin - before, before)),
              counts[begin + 1])
        << begin;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AgainstPython,
                         testing::Values("data_bpe", "data_exact", "data_odd", "data_words",
                                         "data_suffix", "data_unigram", "data_caseops"));
// Without data_odd: versions of SentencePiece differ in its ids.
INSTANTIATE_TEST_SUITE_P(Models, DocumentsAgainstPython,
                         testing::Values("data_bpe", "data_exact", "data_words", "data_suffix",
                                         "data_caseops"));

TEST(ByteTable, IsByPairsUnlessSpacesAreSpelledOrAddedBehindADocument) {
  for (const char* name : {"data_bpe", "data_exact", "data_odd"})
    EXPECT_TRUE(make_byte_table(Tokenizer(fixtures + name + ".model"), 0).by_pairs()) << name;
  for (const char* name : {"data_words", "data_suffix"})
    EXPECT_FALSE(make_byte_table(Tokenizer(fixtures + name + ".model"), 0).by_pairs()) << name;
}

TEST(ByteTable, GivesIdsBeyondThePiecesNoBytesAndMakesThemBoundaries) {
  const Tokenizer tokenizer(bpe_path);
  const ByteTable table = make_byte_table(tokenizer, 600);
  ASSERT_EQ(table.base_bytes.size(), 600U);
  EXPECT_EQ(table.base_bytes[599], 0);
  EXPECT_EQ(table.leading_space[599], 0);
  EXPECT_EQ(table.boundary[599], 1);
}

TEST(ByteTable, CountsTheBytesOfAsciiTextWithoutTheSpaceBeforeItsFirstWord) {
  const Tokenizer tokenizer(bpe_path);
  const std::string text = "every byte of this sentence is counted once";
  Ids ids{1};
  tokenizer.encode(text, ids);
  EXPECT_EQ(count_bytes(make_byte_table(tokenizer, 0), ids), std::ssize(text));
}

// escape_whitespaces=false, in a second normalizer_spec, which is merged with the first.
TEST(ByteTable, CountsThreeBytesOfAMarkWhereSpacesAreWrittenAsTheyAre) {
  const TempDir dir;
  write_file(dir / "m",
             read_file(fixtures + "data_exact.model") + std::string("\x1a\x02\x28\0", 4));
  const Tokenizer tokenizer(dir / "m");
  for (const std::string text : {"the work", " the  work ", "\u2581the \u2581work\u2581", " "}) {
    Ids ids{1};
    tokenizer.encode(text, ids);
    ids.push_back(1);
    EXPECT_EQ(count_bytes(make_byte_table(tokenizer, 0), ids), std::ssize(text)) << text;
  }
}

// Without byte pieces, spaces and what else is no piece become one unknown piece.
TEST(ByteTable, KnowsTheUnknownPiecesAndWhetherTheyMayHideSpaces) {
  const TempDir dir;
  std::string model = read_file(fixtures + "data_odd.model");
  const std::string space = "\x0a\x03\xe2\x96\x81", other = "\x0a\x03zqy";
  ASSERT_NE(model.find(space), std::string::npos);
  model.replace(model.find(space), space.size(), other);
  write_file(dir / "m", model);
  const auto expect = [](const std::string& path, const char* text, int unknown, bool hide) {
    const Tokenizer tokenizer(path);
    const auto table = make_byte_table(tokenizer, 0);
    EXPECT_EQ(count_unknown(table, encode(tokenizer, text)), unknown) << path << text;
    EXPECT_EQ(table.unknown_hide_spaces, hide) << path;
  };
  expect(fixtures + "data_odd.model", "the  work", 0, false);
  expect(fixtures + "data_odd.model", "the \u2603 work", 1, false);
  expect(dir / "m", "a \u2603 b", 1, true);
  expect(fixtures + "data_words.model", "a \u2603 b", 0, false);
  EXPECT_EQ(make_byte_table(Tokenizer(dir / "m"), 0).unknown_ids.size(), 2U) << "one is unused";
}

TEST(CaseOpsTokenizer, GivesBackCapitalsAlsoOfPartsOfAText) {
  const Tokenizer tokenizer(caseops_path, 0, true);
  const std::string text = "The NASA and McDonald: \ue001 \ue004\ue003 xY";
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), text);
  EXPECT_EQ(tokenizer.normalized(text), text);
  Ids ids;
  tokenizer.encode_continued(" and The WORD", ids);
  EXPECT_EQ(tokenizer.decode_continued(ids), " and The WORD");
  EXPECT_NE(Tokenizer(caseops_path).decode(encode(tokenizer, text)), text);
}

TEST(CaseOpsTokenizer, CountsOperatorsAndEscapesZeroBytes) {
  const Tokenizer tokenizer(caseops_path, 0, true);
  const auto table = make_byte_table(tokenizer, 0);
  for (const std::string text :
       {"The NASA", "aB \ue001", "\ue004\ue004\ue004\ue002A", "\ue004 x"}) {
    Ids ids{1};
    tokenizer.encode(text, ids);
    EXPECT_EQ(count_bytes(table, ids), std::ssize(text)) << text;
  }
  EXPECT_FALSE(table.by_pairs());
}

TEST(CaseOpsTokenizer, NeedsEachOperatorAsAPieceOfItsOwn) {
  const auto message_of = [](const std::string& path) {
    return error_of(ExitCode::config, [&] { Tokenizer(path, 0, true); });
  };
  expect_part(message_of(bpe_path), "expected U+E001 to U+E004 as pieces, found no U+E001");
  const TempDir dir;
  const auto write = [&](const std::string& part, const std::string& with) {
    auto model = read_file(caseops_path);
    EXPECT_NE(model.find(part), std::string::npos);
    write_file(dir / "m", model.replace(model.find(part), part.size(), with));
    return dir / "m";
  };
  expect_part(message_of(write("\x0a\x03\ue003", "\x0a\x03\ue013")), "found no U+E003");
  expect_part(message_of(write("\x0a\x06\u2581the", "\x0a\x06\ue002the")), "found it in piece");
}

TEST(Tokenizer, SaysWhatItChangesOfAText) {
  EXPECT_EQ(Tokenizer(bpe_path).normalisation(), "extra_whitespaces");
  EXPECT_EQ(Tokenizer(fixtures + "data_exact.model").normalisation(), "");
}

TEST(Tokenizer, SaysWhichFileIsMissing) {
  const TempDir dir;
  const auto missing = dir / "no.model";
  expect_start(error_of(ExitCode::missing_input, [&] { Tokenizer{missing}; }),
               "cannot open " + missing + " (No such file");
  expect_part(error_of(ExitCode::missing_input, [&] { Tokenizer{dir.path()}; }), "found a folder");
}

TEST(Tokenizer, RefusesAnyOtherVocabularySize) {
  EXPECT_EQ(Tokenizer(bpe_path, 512).pieces(), 512);
  for (const int size : {511, 513, 1024}) {
    expect_start(error_of(ExitCode::config, [&] { Tokenizer(bpe_path, size); }),
                 fmt::format("VOCAB_SIZE={} does not match tokenizer vocab_size=512", size));
  }
}

TEST(Tokenizer, RefusesEveryModelCutShortAndSaysNothingElse) {
  const TempDir dir;
  const std::string whole = read_file(bpe_path), path = dir / "cut.model";
  // Python's trainer ends a model with an empty message that nobody needs: 2 bytes.
  testing::internal::CaptureStderr();
  for (std::size_t size = 0; size + 2 < whole.size(); size += size < whole.size() - 400 ? 37 : 1) {
    write_file(path, whole.substr(0, size));
    expect_part(error_of(ExitCode::bad_data, [&] { Tokenizer{path}; }), path);
  }
  for (const std::string& garbage :
       {std::string(5000, 'x'), std::string(5000, '\0'), std::string("\x12\x00\x1a\x00", 4)}) {
    write_file(path, garbage);
    expect_part(error_of(ExitCode::bad_data, [&] { Tokenizer{path}; }), path);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// The library quotes a piece that it refuses.
TEST(Tokenizer, ShowsNoControlCharactersOfABrokenModel) {
  const TempDir dir;
  std::string model = read_file(bpe_path);
  model.replace(model.find("<0x41>"), 6, "<\n\x1b[m>");
  write_file(dir / "m", model);
  expect_part(error_of(ExitCode::bad_data, [&] { Tokenizer(dir / "m"); }), "<\\x0a\\x1b[m>");
}

TEST(ModelProto, ReadsEveryWireTypeAndStopsAtNonsense) {
  using namespace std::string_literals;
  EXPECT_TRUE(scan_model_proto("")->has_trainer == false);
  const auto model = scan_model_proto(
      "\x12\x02\x18\x02\x1a\x00\x25"
      "abcd\x29"
      "abcdefgh\x38\x01"s);
  ASSERT_TRUE(model);
  EXPECT_TRUE(model->has_trainer && model->has_normalizer && model->type == ModelType::bpe);
  EXPECT_TRUE(model->adds_space && model->removes_spaces && model->marks_spaces);
  const auto unlike = scan_model_proto(
      "\x12\x05\x18\x03\xc0\x01\x01\x1a\x0c\x0a\x01n\x12\x01m\x18\x00\x20\x00\x28\x00"s);
  ASSERT_TRUE(unlike);
  EXPECT_TRUE(unlike->type == ModelType::word && unlike->space_as_suffix);
  EXPECT_TRUE(unlike->rules == "n" && unlike->has_rules);
  EXPECT_FALSE(unlike->adds_space || unlike->removes_spaces || unlike->marks_spaces);
  for (const auto& nonsense :
       {"\x12"s, "\x12\x05xx"s, "\x13"s,
        "\x25"
        "abc"s,
        "\x18\xff"s, std::string(12, '\xff'), "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"s}) {
    EXPECT_FALSE(scan_model_proto(nonsense)) << nonsense.size();
  }
}

// The parts of a text give its ids and their bytes.
void expect_splits(const Tokenizer& tokenizer) {
  std::string text;
  const char* words[] = {"licence", "and", "Wort", "(c)", "2004", "x-y", "NASA",
                         "über",    "  ",  "\n",   "☃",   ".",    "McX"};
  for (unsigned i = 0; i < 4000; ++i) text += std::string(words[i * 7919U % 97 % 13]) + " ";
  Ids whole;
  Counts whole_bytes;
  tokenizer.encode_counted(text, false, whole, whole_bytes);
  EXPECT_EQ(encode(tokenizer, text), whole);
  for (const std::size_t size : {1, 2, 10, 333, 5000}) {
    const auto parts = tokenizer.split(text, size);
    EXPECT_GT(parts.size(), text.size() / (size + 200));
    Ids joined, counted;
    Counts bytes;
    std::string text_again;
    for (const auto part : parts) {
      const bool continued = !text_again.empty();
      text_again += part;
      tokenizer.encode_counted(part, continued, counted, bytes);
      if (continued) {
        tokenizer.encode_continued(part, joined);
      } else {
        tokenizer.encode(part, joined);
      }
    }
    EXPECT_EQ(text_again, text);
    EXPECT_EQ(joined, whole) << size;
    EXPECT_EQ(counted, whole) << size;
    EXPECT_EQ(bytes, whole_bytes) << size;
  }
}

TEST(Tokenizer, SplitsTextOnlyWhereTheIdsStayTheSame) {
  const Tokenizer bpe(bpe_path), odd(fixtures + "data_odd.model");
  expect_splits(bpe);
  expect_splits(Tokenizer(caseops_path, 0, true));
  EXPECT_EQ(odd.split("a text of more than ten bytes", 10).size(), 1U)
      << "a unigram model with pieces across spaces";
  EXPECT_EQ(bpe.split("", 10).size(), 1U);
}

// Words of chance with what models treat specially among them: an rng's text of about so many
// bytes.
std::string long_text(std::size_t bytes) {
  const char* const odd[] = {" ",      "  ", "\n", "\t\t", "<code>",  "<ctl>",  "über", "☃☃☃",
                             "日本語", "ﬁ",  "２", "½",    "a\u0301", "\u200b", "▁▁",   "x"};
  const char* const words[] = {"licence",      "work", "the",       "of",   "derivative",
                               "conditions",   "and",  "xylophone", "2004", "(c)",
                               "contribution", "you",  "may"};
  std::mt19937 random(7);
  std::string text;
  while (text.size() < bytes) {
    if (random() % 8 == 0) text += odd[random() % std::size(odd)];
    text += words[random() % std::size(words)];
    text += random() % 50 == 0 ? "." : " ";
  }
  return text;
}

// Text without white space, and in other scripts.
std::string dense_text(std::size_t bytes) {
  const char* const words[] = {"licence", "日本語", "работа", "<code>", "☃",
                               "が",      "한국어", "...",    "ﬁ"};
  std::mt19937 random(8);
  std::string text;
  while (text.size() < bytes) text += words[random() % std::size(words)];
  return text;
}

// In a process of its own: the most memory that a process had does not fall.
TEST(UnigramModel, TokenisesALongTextInMemoryThatIsNotManyTimesTheText) {
  constexpr std::size_t bytes = 6'000'000;
  const auto text = long_text(bytes / 2) + dense_text(bytes / 2);
  const Tokenizer tokenizer(fixtures + "data_unigram.model");
  const pid_t child = ::fork();
  if (child == 0) {
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    Ids ids;
    tokenizer.encode(text, ids);
    ::getrusage(RUSAGE_SELF, &after);
    const auto grown = static_cast<std::size_t>(after.ru_maxrss - before.ru_maxrss) * 1024;
    ::_exit(static_cast<int>(std::min<std::size_t>(255, grown / bytes)));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  // The library alone takes over 110 times the text; the room is for sanitizers.
  EXPECT_LE(WEXITSTATUS(status), 25) << "times the text";
}

TEST(UnigramModel, GivesALongTextTheIdsOfTheLibrary) {
  const auto text = long_text(1'600'000) + dense_text(800'000);
  for (const char* name : {"data_unigram", "data_odd"}) {
    const auto path = fixtures + name + ".model";
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.Load(path).ok());
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    Ids ids;
    Tokenizer(path).encode(text, ids);
    ASSERT_EQ(ids.size(), expected.size()) << name;
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin())) << name;
  }
}

}  // namespace
}  // namespace tg
