#include "data/document_reader.h"

#include "data/document_encoder.h"
#include "tests/data/files.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::TempDir;
using test::write_file;
using Ids = std::vector<std::uint16_t>;

TEST(DocumentReader, FindsSeparatorsAcrossReads) {
  const TempDir dir;
  // Reads are 1 MiB: the empty line ends just before, at or after the end of the first.
  for (const std::size_t length : {1048574U, 1048575U, 1048576U}) {
    write_file(dir / "in", std::string(length, 'x') + "\n\nsecond\n\nthird");
    DocumentReader reader({dir / "in"}, Separator::blank_line, false);
    EXPECT_EQ(reader.next()->text.size(), length);
    EXPECT_EQ(reader.next()->text, "second");
    EXPECT_EQ(reader.next()->text, "third");
    EXPECT_FALSE(reader.next());
  }
}

std::vector<std::string> documents_of(const std::string& path, Separator separator) {
  std::vector<std::string> texts;
  DocumentReader reader({path}, separator, false);
  while (auto document = reader.next()) texts.push_back(std::move(document->text));
  return texts;
}

TEST(DocumentReader, AnEmptyLineIsTwoLineEndsOfAnyKindAndMoreOfThemAreNoText) {
  const TempDir dir;
  using Texts = std::vector<std::string>;
  const struct {
    std::string text;
    Texts documents;
  } cases[] = {
      {"a\nb\n\nc\n", {"a\nb", "c\n"}}, {"a\r\nb\r\n\r\nc\r\n", {"a\r\nb", "c\r\n"}},
      {"a\rb\r\rc\r", {"a\rb", "c\r"}}, {"a\n\n\nb\n\n\n\nc", {"a", "b", "c"}},
      {"a\r\n\r\n\r\nb", {"a", "b"}},   {"a\n\r\nb\r\n\nc", {"a", "b", "c"}},
      {"\n\n\na\n\n\n", {"a"}},         {"\r\n", {}},
  };
  for (const auto& [text, documents] : cases) {
    write_file(dir / "in", text);
    EXPECT_EQ(documents_of(dir / "in", Separator::blank_line), documents) << text;
  }
}

TEST(DocumentReader, LineEndsAcrossReadsAreOneSeparator) {
  const TempDir dir;
  for (std::size_t length = (1 << 20) - 6; length <= (1 << 20); ++length) {
    write_file(dir / "in", std::string(length, 'x') + "\r\n\r\n\r\nsecond");
    const auto texts = documents_of(dir / "in", Separator::blank_line);
    ASSERT_EQ(texts.size(), 2u) << length;
    EXPECT_EQ(texts[0].size(), length);
    EXPECT_EQ(texts[1], "second");
  }
}

TEST(DocumentReader, ALineIsADocumentWithoutItsEnd) {
  const TempDir dir;
  write_file(dir / "in", "one\r\ntwo\n\r\nthree");
  EXPECT_EQ(documents_of(dir / "in", Separator::line),
            (std::vector<std::string>{"one", "two", "three"}));
}

TEST(DocumentReader, AByteOrderMarkIsNoText) {
  const TempDir dir;
  const std::string mark = "\xEF\xBB\xBF";
  write_file(dir / "in", mark + "a" + mark + "\n\nb");
  EXPECT_EQ(documents_of(dir / "in", Separator::blank_line),
            (std::vector<std::string>{"a" + mark, "b"}));
  EXPECT_EQ(documents_of(dir / "in", Separator::file), (std::vector{"a" + mark + "\n\nb"}));
  write_file(dir / "in.jsonl", mark + "{\"text\": \"a\"}\r\n");
  EXPECT_EQ(documents_of(dir / "in.jsonl", Separator::file), (std::vector<std::string>{"a"}));
  write_file(dir / "mark", mark);
  EXPECT_TRUE(documents_of(dir / "mark", Separator::file).empty());
  // The place of an error counts the file's bytes.
  write_file(dir / "wrong", mark + "ab\xff");
  expect_part(error_of(ExitCode::bad_data, [&] { documents_of(dir / "wrong", Separator::file); }),
              "at byte 5");
}

TEST(DocumentReader, TakesADocumentFromEachLineOfAJsonlFileWhateverTheSeparator) {
  const TempDir dir;
  write_file(dir / "in.jsonl",
             "{\"id\": 1, \"text\": \"one\\n\\ntwo\"}\n\n  \r\n"
             "{\"text\": \"\\u00fcber \\ud83d\\ude00\", \"text2\": null}\r\n"
             "{\"text\": \" \\n\"}\n{\"text\": \"last\"}");
  write_file(dir / "in.txt", "a\n\nb\nc");
  const std::vector<std::string> from_jsonl = {"one\n\ntwo", "\u00fcber \U0001f600", "last"};
  const auto from_txt = [](Separator separator) -> std::vector<std::string> {
    if (separator == Separator::file) return {"a\n\nb\nc"};
    if (separator == Separator::line) return {"a", "b", "c"};
    return {"a", "b\nc"};
  };
  for (const auto separator : {Separator::file, Separator::blank_line, Separator::line}) {
    DocumentReader reader({dir / "in.jsonl", dir / "in.txt", dir / "in.jsonl"}, separator, false);
    auto expected = from_jsonl;
    for (const std::string& text : from_txt(separator)) expected.push_back(text);
    expected.insert(expected.end(), from_jsonl.begin(), from_jsonl.end());
    for (const std::string& text : expected) EXPECT_EQ(reader.next()->text, text);
    EXPECT_FALSE(reader.next());
  }
}

TEST(DocumentReader, NamesFileLineAndByteOfAJsonlLineWithoutADocument) {
  const TempDir dir;
  const std::string first = "{\"text\": \"fine\"}\n\n";  // 18 bytes, two lines
  const struct {
    std::string line;
    int byte;
    std::string found;
  } cases[] = {
      {.line = "no json", .byte = 19, .found = "found no JSON)"},
      {.line = "{\"text\": \"cut", .byte = 30, .found = "found no JSON)"},
      {.line = "{\"text\": \"\\ud800\"}", .byte = 34, .found = "found no JSON)"},
      {.line = "{\"text\": \"a\"} x", .byte = 32, .found = "found no JSON)"},
      {.line = "{\"text\": \"a\", \"n\": 1e999}",
       .byte = 18,
       .found = "found a number beyond the range of a double)"},
      {.line = "[\"text\"]", .byte = 18, .found = "found JSON array)"},
      {.line = "\"text\"", .byte = 18, .found = "found JSON string)"},
      {.line = "{\"texts\": \"a\"}", .byte = 18, .found = "found an object without \"text\")"},
      {.line = "{\"text\": [\"a\"]}", .byte = 18, .found = "found a \"text\" that is array)"},
      {.line = "{\"text\": null}", .byte = 18, .found = "found a \"text\" that is null)"},
      {.line = std::string(100000, '['), .byte = 100017, .found = "found no JSON)"},
  };
  for (const auto& wrong : cases) {
    write_file(dir / "in.jsonl", first + wrong.line + "\n{\"text\": \"more\"}\n");
    DocumentReader reader({dir / "in.jsonl"}, Separator::file, false);
    EXPECT_EQ(reader.next()->text, "fine");
    const auto message = error_of(ExitCode::bad_data, [&] { reader.next(); });
    expect_start(message,
                 fmt::format("{} line 3 holds no document at byte {} (expected a JSON object with "
                             "a string \"text\", ",
                             dir / "in.jsonl", wrong.byte));
    expect_part(message, wrong.found);
  }
  write_file(dir / "in.jsonl", first + "{\"text\": \"\xff\"}");
  DocumentReader strict({dir / "in.jsonl"}, Separator::file, false);
  strict.next();
  expect_start(error_of(ExitCode::bad_data, [&] { strict.next(); }),
               (dir / "in.jsonl") + " is not UTF-8 at byte 28 (found 0xff)");
  DocumentReader lenient({dir / "in.jsonl"}, Separator::file, true);
  lenient.next();
  EXPECT_EQ(lenient.next()->text, "\uFFFD");
}

TEST(DocumentEncoder, ALongDocumentGetsTheTokensOfItsWholeText) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text +=
        fmt::format("Sentence {} grants you a copyright licence to reproduce the work, über alles.",
                    i) +
        (i % 7 == 0 ? "\n" : "  ");
  write_file(dir / "text", text);
  for (const std::string name : {"data_bpe", "data_exact", "data_odd"}) {
    const Tokenizer tokenizer(std::string(TEST_DATA_DIR) + "/" + name + ".model");
    Ids expected = {static_cast<std::uint16_t>(tokenizer.bos_id())};
    tokenizer.encode(text, expected);
    DocumentReader reader({dir / "text"}, Separator::file, false);
    DocumentEncoder encoder(tokenizer, reader, 2);
    Ids tokens;
    for (auto parts = encoder.next(); !parts.empty(); parts = encoder.next()) {
      for (const auto& part : parts)
        tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    }
    EXPECT_EQ(tokens, expected) << name;
  }
}

}  // namespace
}  // namespace tg
