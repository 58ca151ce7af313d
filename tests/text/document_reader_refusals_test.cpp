// What a DocumentReader refuses, and how its message names the place and the remedy.
#include <algorithm>
#include <random>

#include "tests/files/packed.h"
#include "tests/text/document_reader_fixture.h"
#include "text/foreign_format.h"

namespace tg {
namespace {

using test::documents_of;
using test::error_of;
using test::expect_part;
using test::expect_start;
using test::TempDir;
using test::write_file;

TEST(DocumentReader, NamesFileLineAndByteOfAJsonlLineWithoutADocument) {
  const TempDir dir;
  const std::string first = "{\"text\": \"fine\"}\n\n";  // 18 bytes, two lines
  const struct {
    std::string line;
    int byte;
    std::string found;
  } cases[] = {
      {.line = "no json", .byte = 18, .found = "found no JSON)"},
      {.line = "{\"text\": \"cut",
       .byte = 31,
       .found = "found an object that does not end in its "},
      {.line = "{\"text\": \"a\"} x", .byte = 32, .found = "found no JSON)"},
      {.line = "[\"text\"]", .byte = 18, .found = "found JSON array)"},
      {.line = "\"text\"", .byte = 18, .found = "found JSON string)"},
      {.line = "{\"texts\": \"a\"}",
       .byte = 18,
       .found = "found an object with the keys \"texts\")"},
      {.line = "{\"text\": [\"a\"]}", .byte = 18, .found = "found a \"text\" that is array)"},
      {.line = "{\"text\": null}", .byte = 18, .found = "found a \"text\" that is null)"},
      {.line = std::string(100000, '['), .byte = 18, .found = "found JSON array)"},
      {.line = "{\"a\":" + std::string(100000, '['),
       .byte = 100023,
       .found = "found an object that "},
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

TEST(DocumentReader, RefusesOtherJsonWithItsPlace) {
  const TempDir dir;
  const struct {
    std::string text, message;
  } cases[] = {
      {"\"text\"",
       " line 1 column 1: expected lines of JSON objects, or an array of them, found "
       "\"text\""},
      {"  7", " line 1 column 3: expected lines"},
      {"text", " line 1 column 1: expected lines"},
      {"{\n  \"text\": \"a\"\n}", " line 1 holds no document at byte 1 ("},
      {"{\"data\": [{\"text\": \"a\"}]}", " line 1 holds no document at byte 0 ("},
      {"[\"a\"]", " line 1 column 2: expected an object in the array, found \"a\"]"},
      {"[[]]", " line 1 column 2: expected an object in the array"},
      {"[\n{\"text\": \"a\"},\n]", " line 3 column 1: expected an object in the array, found ]"},
      {"[{\"text\": \"a\"} {}]",
       " line 1 column 16: expected a comma or the array's end, found {}]"},
      {"[{\"text\": \"a\"}",
       " line 1 column 15: expected a comma or the array's end, found the end "
       "of the file"},
      {"[\n{\"text\": \"a\"", " line 2 column 13: expected the end of the object, found the end"},
      {"[", " line 1 column 2: expected an object in the array, found the end of the file"},
      {"[{\"text\": \"a\"}]\n[]", " line 2 column 1: expected nothing behind the array, found []"},
      {"[{\"text\": \"a\"},\n\n {\"title\": 1}]", " line 3 holds no document at byte 18 ("},
      {"[{\"text\": \"a\"},\n{\"text\": \"b\",\n \"c\" 1}]",
       " line 3 holds no document at byte 35 ("},
  };
  for (const auto& [text, message] : cases) {
    write_file(dir / "in.json", text);
    expect_start(
        error_of(ExitCode::bad_data, [&] { documents_of(dir / "in.json", Separator::file); }),
        (dir / "in.json") + message);
  }
}

TEST(DocumentReader, ALoneSurrogateIsRefusedOrReplacedWithOneWarning) {
  const TempDir dir;
  const std::string first = "{\"text\": \"fine\"}\n";
  const std::string lines = first + "{\"n\": \"\u00fc\", \"text\": \"a \\ud83d b\"}\n" +
                            "{\"text\": \"\\udc00\", \"other\": \"\\ud800\"}\n";
  const std::string array =
      "[" + first + ",\n{\"text\":\n \"a \\ud83d b\"},{\"text\": \"\\udc00\"}]";
  const std::pair<std::string, std::string> cases[] = {
      {"in.jsonl", " line 2 column 23 is a lone surrogate, \\ud83d (expected a pair"},
      {"in.json", " line 4 column 5 is a lone surrogate, \\ud83d (expected a pair"}};
  write_file(dir / "in.jsonl", lines);
  write_file(dir / "in.json", array);
  for (const auto& [name, what] : cases) {
    const auto message =
        error_of(ExitCode::bad_data, [&] { documents_of(dir / name, Separator::file); });
    expect_start(message, (dir / name) + what);
    expect_part(message, "--replace-invalid");
    testing::internal::CaptureStderr();
    EXPECT_EQ(documents_of(DocumentReader({dir / name}, Separator::file, true)),
              (std::vector<std::string>{"fine", "a \uFFFD b", "\uFFFD"}));
    const auto warning = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
  }
}

TEST(DocumentReader, RefusesOtherFormatsByNameWithTheCommandThatConvertsThem) {
  const TempDir dir;
  using namespace std::string_literals;
  const struct {
    std::string head, name, command;
  } cases[] = {
      {"PAR1", "Parquet", "p.ParquetFile('{}').iter_batches(columns=['content'])"},
      {"ARROW1\0\0"s, "an Arrow file", "a.ipc.open_file(a.memory_map('{}'))"},
      {"\xff\xff\xff\xff\x10\0\0\0"s, "an Arrow stream", "a.ipc.open_stream(a.memory_map('{}'))"},
      {"FEA1", "a Feather file", "f.read_table('{}', columns=['content'])"},
      {"\x93NUMPY\1\0"s, "a NumPy array", "n.load('{}')"},
      {"PK\3\4", "a zip archive", "python3 -m zipfile -e {} "},
      {"BZh9", "bzip2 data", "bzip2 -dk {}"},
      {"\xff\xfe\x61\0"s, "UTF-16", "iconv -f UTF-16 -t UTF-8 {} >"},
      {"\xff\xfe\0\0a\0\0\0"s, "UTF-32", "iconv -f UTF-32 -t UTF-8 {} >"},
      {std::string(257, 'a') + "ustar", "a tar archive", "tar -xf {} -C "},
  };
  for (const auto& one : cases) {
    for (const std::string name : {"in.other", "in.txt", "in.jsonl", "in.json"}) {
      write_file(dir / name, one.head + std::string(100, '\xe4'));
      const auto message = error_of(ExitCode::bad_data, [&] {
        documents_of(DocumentReader({dir / name}, Separator::file, true, "content"));
      });
      expect_start(message, (dir / name) + " is " + one.name + " (expected text");
      expect_part(message, fmt::format(fmt::runtime(one.command), dir / name));
      EXPECT_EQ(message.find("--replace-invalid"), std::string::npos);
    }
    write_file(dir / "in.txt.gz", test::gzip(one.head + std::string(100, 'x')));
    expect_part(
        error_of(ExitCode::bad_data, [&] { documents_of(dir / "in.txt.gz", Separator::file); }),
        one.name);
  }
}

// Units of UTF-16 or UTF-32 in this machine's order, little-endian, or reversed.
template <typename Unit>
std::string in_units(std::basic_string_view<Unit> text, bool big_endian = false) {
  std::string bytes;
  for (const Unit unit : text) {
    for (std::size_t i = 0; i < sizeof(Unit); ++i) {
      const auto byte = big_endian ? sizeof(Unit) - 1 - i : i;
      bytes += static_cast<char>(static_cast<std::uint32_t>(unit) >> 8 * byte);
    }
  }
  return bytes;
}

constexpr std::u32string_view kScripts[] = {
    U"hi",
    U"The licence covers the Work.\r\nAnd more of it.\n",
    U"{\"text\": \"Grüße aus Köln\"}\n",
    U"Лицензия распространяется на произведение. И ещё немного.",
    U"Η άδεια καλύπτει το έργο και κάτι ακόμη.\n",
    U"许可证涵盖该作品。一切都很好,我们明天见面。这是一个关于语言的测试\n第二行文字在这里。",
    U"このライセンスは作品を対象としています。これは試験です。二行目。\n",
    U"라이선스는 저작물에 적용됩니다. 그리고 조금 더 있습니다.\n",
    U"smile \U0001f600 and \U0001f64f\n",
};

TEST(DocumentReader, KnowsUtf16AndUtf32WithoutAMark) {
  const TempDir dir;
  for (const auto script : kScripts) {
    std::u16string units;
    for (const char32_t point : script) {
      if (point < 0x10000) {
        units += static_cast<char16_t>(point);
      } else {
        units += static_cast<char16_t>(0xd800 + ((point - 0x10000) >> 10));
        units += static_cast<char16_t>(0xdc00 + (point & 0x3ff));
      }
    }
    const std::u16string_view wide = units;
    const std::pair<std::string, std::string> cases[] = {
        {"UTF-16LE", in_units(wide)},
        {"UTF-16BE", in_units(wide, true)},
        {"UTF-32LE", in_units(script)},
        {"UTF-32BE", in_units(script, true)},
    };
    for (const auto& [name, bytes] : cases) {
      for (const std::string file : {"in.txt", "in.jsonl", "in.json", "in"}) {
        write_file(dir / file, bytes);
        const auto message = error_of(ExitCode::bad_data, [&] {
          documents_of(DocumentReader({dir / file}, Separator::line, true));
        });
        expect_start(message, (dir / file) + " is " + name + " (expected text in UTF-8 or JSON)");
        expect_part(message,
                    "iconv -f " + name + " -t UTF-8 " + (dir / file) + " >" +
                        (dir / (file == "in" ? "in.utf8.txt" : "in.utf8" + file.substr(2))));
      }
    }
  }
}

TEST(DocumentReader, TakesNoTextOfSingleBytesForUtf16) {
  using namespace std::string_literals;
  const std::string texts[] = {"",
                               "a",
                               "a\0"s,
                               "word\0another\0one\0more\0"s,
                               "ab\0cd\0ef\0gh\0xy\0zw\0"s,
                               "Stra\xdf\x65 und \xfc\x62\x65r\r\n",
                               "\x1b[1mbold\x1b[0m\n",
                               "\xd6\xd0\xce\xc4\xb2\xe2\xca\xd4\xa1\xa3",  // GBK
                               std::string(5000, '\0')};
  for (const auto& text : texts) EXPECT_EQ(wide_encoding(text), "") << text;
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::string bytes(2000, ' ');
    for (auto& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(wide_encoding(bytes), "");
  }
}

TEST(DocumentReader, NamesWhatIsPackedTwiceOrNotAtAll) {
  const TempDir dir;
  const std::string line = "{\"text\": \"one licence\"}\n";
  const auto message = [&](const std::string& name, const std::string& bytes) {
    write_file(dir / name, bytes);
    return error_of(ExitCode::bad_data, [&] { documents_of(dir / name, Separator::line); });
  };
  expect_part(message("a.jsonl.gz", test::gzip(test::gzip(line))),
              "is packed twice, with gzip inside (expected text in UTF-8 or JSON); convert it: "
              "unpack it once");
  for (const std::string name : {"a.jsonl.gz", "a.jsonl.zst", "a.jsonl.xz"}) {
    expect_part(message(name, line), (dir / name) + " is text that is not packed (expected ." +
                                         name.substr(name.rfind('.') + 1) +
                                         " data by its name); rename it to " + (dir / "a.jsonl"));
  }
  expect_part(message("a.jsonl.gz", "{}"), "is text that is not packed");
  expect_part(message("a.jsonl.gz", std::string("\1\0\2\0\3\0\4\0", 8)), "begins otherwise");
}

TEST(DocumentReader, SaysThatAnObjectGoesOnInTheNextLine) {
  const TempDir dir;
  for (const std::string name : {"in.jsonl", "in.json"}) {
    write_file(dir / name, "{\n  \"text\": \"one\"\n}\n{\n  \"text\": \"two\"\n}\n");
    const auto message =
        error_of(ExitCode::bad_data, [&] { documents_of(dir / name, Separator::line); });
    expect_part(message, "line 1 holds no document at byte 1 (");
    expect_part(message,
                "does not end in its line: one over several lines, or cut short); every "
                "line, or element of an array, must be such an object, as jq -c . FILE");
  }
}

TEST(DocumentReader, AdvisesToReplaceBytesOnlyInWhatLooksLikeText) {
  const TempDir dir;
  std::string random(5000, '\0');
  std::uint32_t state = 1;
  for (char& byte : random) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  const std::string latin = "Stra\xdf\x65, \x1b[1mfett\x1b[0m\r\n\f";
  const std::pair<std::string, bool> cases[] = {{latin, true},
                                                {std::string(5000, '\xe4'), true},
                                                {"\xff", true},
                                                {random, false},
                                                {std::string("\xff\0\1\2", 4), false},
                                                {"abc\xff" + std::string(3, '\0'), false}};
  for (const auto& [bytes, text] : cases) {
    for (const std::string name : {"in", "in.txt", "in.jsonl"}) {
      write_file(dir / name, (name == "in.jsonl" ? "{\"text\": \"" : "") + bytes + "\"}");
      for (const auto separator : {Separator::file, Separator::line}) {
        const auto message =
            error_of(ExitCode::bad_data, [&] { documents_of(dir / name, separator); });
        if (name == "in.jsonl" && message.find("holds no document") != std::string::npos) continue;
        expect_part(message, " is not UTF-8 at byte ");
        EXPECT_EQ(message.find("--replace-invalid") != std::string::npos, text) << message;
      }
    }
  }
}

}  // namespace
}  // namespace tg
