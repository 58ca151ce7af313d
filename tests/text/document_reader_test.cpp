// What a DocumentReader reads from text, JSON and packed files, and a DocumentEncoder encodes.
#include "tests/files/packed.h"
#include "tests/text/document_reader_fixture.h"
#include "text/document_encoder.h"

namespace tg {
namespace {

using test::documents_of;
using test::error_of;
using test::expect_part;
using test::TempDir;
using test::write_file;
using Ids = std::vector<TokenId>;

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

TEST(DocumentReader, ReadsPackedFilesAsItReadsThemUnpacked) {
  const TempDir dir;
  const std::string mark = "\xEF\xBB\xBF";
  const std::string txt = mark + "a\r\nb\r\n\r\n\r\nc\r\n";
  const std::string lines = mark + "{\"text\": \"a\"}\r\n\r\n{\"text\": \"b\\n\"}";
  for (const auto& [suffix, pack] : test::kPackers) {
    write_file(dir / "in.txt" + suffix, pack(txt));
    EXPECT_EQ(documents_of(dir / "in.txt" + suffix, Separator::blank_line),
              (std::vector<std::string>{"a\r\nb", "c\r\n"}));
    write_file(dir / "in.jsonl" + suffix, pack(lines.substr(0, 20)) + pack(lines.substr(20)));
    EXPECT_EQ(documents_of(dir / "in.jsonl" + suffix, Separator::file),
              (std::vector<std::string>{"a", "b\n"}));
    write_file(dir / "wrong" + suffix, pack("good \xff"));
    expect_part(error_of(ExitCode::bad_data,
                         [&] { documents_of(dir / "wrong" + suffix, Separator::file); }),
                "is not UTF-8 at byte 5 of what it unpacks to (found 0xff); convert it, or pass "
                "--replace-invalid");
  }
}

TEST(DocumentReader, CountsTheBytesOfTheFilesAsTheyAreStored) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("line {}\n\n", i);
  write_file(dir / "a.txt", text);
  write_file(dir / "b.txt.gz", test::gzip(text));
  DocumentReader reader({dir / "a.txt", dir / "b.txt.gz"}, Separator::blank_line, false);
  int documents = 0;
  while (reader.next()) ++documents;
  EXPECT_EQ(documents, 2000);
  EXPECT_EQ(reader.bytes_read(), std::ssize(text) + std::ssize(test::gzip(text)));
}

TEST(DocumentReader, ReadsJsonAsLinesOrAsAnArray) {
  const TempDir dir;
  const std::vector<std::string> expected = {"one", "t]}w\"o,", "\u00fc"};
  const std::string objects[] = {"{\"text\": \"one\", \"n\": [1, {\"a\": NaN}]}",
                                 "{\"id\": \"\\\\\", \"text\": \"t]}w\\\"o,\"}",
                                 "{\n  \"text\": \"\u00fc\"\n}"};
  for (const std::string& space : {std::string(), std::string("\n  "), std::string(9000, ' ')}) {
    const auto array = "\xEF\xBB\xBF" + space + "[" + space + objects[0] + space + "," +
                       objects[1] + space + "," + space + objects[2] + space + "]" + space;
    write_file(dir / "in.json", array);
    EXPECT_EQ(documents_of(dir / "in.json", Separator::line), expected);
    write_file(dir / "in.json.zst", test::zstd(array));
    EXPECT_EQ(documents_of(dir / "in.json.zst", Separator::file), expected);
  }
  write_file(dir / "in.json", "\n" + objects[0] + "\n\n" + objects[1]);
  EXPECT_EQ(documents_of(dir / "in.json", Separator::file),
            std::vector(expected.begin(), expected.begin() + 2));
  for (const std::string none : {"", " \n", "[]", "[ ]\n"}) {
    write_file(dir / "in.json", none);
    EXPECT_TRUE(documents_of(dir / "in.json", Separator::file).empty()) << none;
  }
}

TEST(DocumentReader, FindsTheElementsOfAnArrayAcrossReads) {
  const TempDir dir;
  // Reads are 1 MiB: their ends lie within strings, behind backslashes and between elements.
  std::string array = "[";
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back(std::string(static_cast<std::size_t>(60'000 + 7 * i), '"') + "]},");
    array += i == 0 ? "" : ",\n";
    array += "{\"text\": \"";
    for (const char c : expected.back()) array += c == '"' ? "\\\"" : std::string(1, c);
    array += "\"}";
  }
  write_file(dir / "in.json", array + "]");
  EXPECT_TRUE(documents_of(dir / "in.json", Separator::file) == expected);
}

TEST(DocumentReader, TakesTheTextOfAnotherKey) {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"text\": 1, \"content\": \"a\"}\n{\"content\": \"b\"}");
  EXPECT_EQ(documents_of(DocumentReader({dir / "in.jsonl"}, Separator::file, false, "content")),
            (std::vector<std::string>{"a", "b"}));
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
    Ids expected = {static_cast<TokenId>(tokenizer.bos_id())};
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
