#include "text/json_object.h"

#include "tests/files/testing.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;

std::string_view find(std::string_view object, std::string_view key = "text") {
  static const std::string path = "f.jsonl";
  return find_json_string(object, key,
                          {.path = path, .position = {.line = 7, .column = 1}, .at = 100});
}

std::string text_of(std::string_view object, std::string_view key = "text") {
  return text_of_json_string(find(object, key)).text;
}

TEST(JsonObject, HasTheStringOfItsKeyWhateverTheOthersHold) {
  EXPECT_EQ(text_of(R"({"text": "a"})"), "a");
  EXPECT_EQ(text_of(" {\"text\" :\t\"a\" } \r\n"), "a");
  EXPECT_EQ(text_of(R"({"text":""})"), "");
  EXPECT_EQ(text_of(R"({"content": "a", "text": "b"})", "content"), "a");
  EXPECT_EQ(text_of(R"({"te\u0078t": "a"})"), "a");
  EXPECT_EQ(text_of(R"({"text": 1, "text": "last"})"), "last");
  for (const std::string other :
       {"NaN", "Infinity", "-Infinity", "1e999", "-0.5E-7", "123456789012345678901234567890",
        "null", "true", R"("\ud800")", R"("\x")", "\"\xff\"", R"([1, [NaN], {"text": "no"}])",
        R"({"text": "no", "b": ["}", "]"]})", "[]", "{}"}) {
    EXPECT_EQ(text_of("{\"n\": " + other + ", \"text\": \"a\"}"), "a") << other;
    EXPECT_EQ(text_of("{\"text\":\"a\",\"n\":" + other + "}"), "a") << other;
  }
}

TEST(JsonObject, IsNamedWithItsKeysWhereTheTextIsMissing) {
  const auto message =
      error_of(ExitCode::bad_data, [] { find(R"({"title": "a", "n\u0041": 1, "body": [2]})"); });
  EXPECT_EQ(
      message.find("f.jsonl line 7 holds no document at byte 100 (expected a JSON object with "
                   "a string \"text\", found an object with the keys \"title\", "
                   "\"n\\u0041\", \"body\")"),
      0U)
      << message;
  expect_part(message, "--text-key (TEXT_KEY)");
  expect_part(error_of(ExitCode::bad_data, [] { find("{}"); }), "found an object without members)");
  std::string many = "{\"k0\": 0";
  for (int i = 1; i < 50; ++i) many += fmt::format(", \"k{}\": {}", i, i);
  expect_part(error_of(ExitCode::bad_data, [&] { find(many + "}"); }), "\"k11\" and 38 more)");
}

TEST(JsonObject, IsRefusedWhereItIsNone) {
  const std::string unended =
      "an object that does not end in its line: one over several lines, or cut short";
  const struct {
    std::string text;
    int byte;
    std::string found;
  } cases[] = {
      {"", 100, "no JSON"},
      {"text", 100, "no JSON"},
      {"[{\"text\": \"a\"}]", 100, "JSON array"},
      {"\"text\"", 100, "JSON string"},
      {" 7", 101, "JSON number"},
      {"null", 100, "JSON null"},
      {"{", 101, unended},
      {"{\"text\": [1,", 112, unended},
      {"{\"text\": \"a\"", 112, unended},
      {"{\"text\": \"a", 111, unended},
      {"{\"text\": \"a\\", 112, unended},
      {"\ufeff{\"text\": \"a\"}", 100, "a byte order mark before it, as cat leaves between files"},
      {"{\"text\": \"a\"} x", 114, "no JSON"},
      {"{\"text\" \"a\"}", 108, "no JSON"},
      {"{\"text\": \"a\",}", 113, "no JSON"},
      {"{text: \"a\"}", 101, "no JSON"},
      {"{\"n\": [}, \"text\": \"a\"}", 107, "no JSON"},
      {"{\"n\": , \"text\": \"a\"}", 106, "no JSON"},
      {"{\"text\": \"a\\x\"}", 111, "no JSON"},
      {"{\"text\": \"a\\u12g4\"}", 111, "no JSON"},
      {"{\"text\": \"a\\u12", 115, unended},
      {"{\"text\": \"a\tb\"}", 111, "the control character 0x09 in that string"},
      {"{\"text\": [\"a\"]}", 100, "a \"text\" that is array"},
      {"{\"text\": null}", 100, "a \"text\" that is null"},
      {"{\"text\": \"a\", \"text\": NaN}", 100, "a \"text\" that is number"},
  };
  for (const auto& [text, byte, found] : cases) {
    const auto message = error_of(ExitCode::bad_data, [&, &given = text] { find(given); });
    expect_part(message, fmt::format("line 7 holds no document at byte {} (", byte));
    expect_part(message, "found " + found + ")");
  }
}

TEST(JsonString, MeansWhatItsEscapesMean) {
  const auto text = [](std::string_view written) { return text_of_json_string(written).text; };
  EXPECT_EQ(text(R"(\"\\\/\b\f\n\r\t)"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(text(R"(\u00e9\u00FC\u20ac \ud83d\ude00)"), "\u00e9\u00fc\u20ac \U0001f600");
  EXPECT_EQ(text(R"(\u0000x)"), std::string("\0x", 2));
  EXPECT_EQ(text(R"(\\u00e9)"), R"(\u00e9)");
  EXPECT_FALSE(text_of_json_string(R"(\ud83d\ude00 \\ud83d)").lone_surrogate);
}

TEST(JsonString, AloneSurrogatesAreReplacedAndTheFirstIsFound) {
  const struct {
    std::string written, text;
    std::size_t at;
  } cases[] = {
      {R"(\ud83d)", "\uFFFD", 0},
      {R"(a \uDE00 b)", "a \uFFFD b", 2},
      {R"(\ud83d\ud83d\ude00)", "\uFFFD\U0001f600", 0},
      {R"(\ude00\ud83d)", "\uFFFD\uFFFD", 0},
      {R"(\ud83d\u0041)", "\uFFFD\u0041", 0},
      {R"(\ud83d\n\ude00)", "\uFFFD\n\uFFFD", 0},
      {R"(\ud83d\ude00\ud83d x)", "\U0001f600\uFFFD x", 12},
      {R"(\ud83d\\ude00)", "\uFFFD\\ude00", 0},
  };
  for (const auto& [written, text, at] : cases) {
    const auto found = text_of_json_string(written);
    EXPECT_EQ(found.text, text) << written;
    EXPECT_EQ(found.lone_surrogate, at) << written;
  }
}

}  // namespace
}  // namespace tg
