#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "files/append_file.h"
#include "files/json_file.h"
#include "tests/files/file_size_limit.h"
#include "tests/files/testing.h"

namespace tg::test {
namespace {

using nlohmann::json;

TEST(JsonLines, WritesEachLineAtOnceAndAppends) {
  const TempDir folder;
  JsonLines lines(folder / "m.jsonl");
  lines.write({{"step", 1}});
  EXPECT_EQ(read_file(folder / "m.jsonl"), "{\"step\":1}\n");
  JsonLines(folder / "m.jsonl").write({{"step", 2}});
  EXPECT_EQ(read_file(folder / "m.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(JsonLines, KeepsDoublesExactlyAndWritesNullForNonFiniteOnes) {
  const TempDir folder;
  const double third = 1.0 / 3, tiny = 5e-324;
  JsonLines(folder / "m.jsonl").write({{"a", third}, {"b", tiny}, {"c", NAN}, {"d", -INFINITY}});
  const json read = json::parse(read_file(folder / "m.jsonl"));
  EXPECT_EQ(read["a"].get<double>(), third);
  EXPECT_EQ(read["b"].get<double>(), tiny);
  EXPECT_TRUE(read["c"].is_null());
  EXPECT_TRUE(read["d"].is_null());
}

TEST(JsonLines, CutsOffALineThatAKilledRunLeftUnfinished) {
  const TempDir folder;
  for (size_t tail : {size_t{5}, size_t{4095}, size_t{4096}, size_t{20000}}) {
    write_file(folder / "m.jsonl", "{}\n" + std::string(tail, '{'));
    JsonLines(folder / "m.jsonl").write(json::object());
    EXPECT_EQ(read_file(folder / "m.jsonl"), "{}\n{}\n") << tail;
  }
  write_file(folder / "m.jsonl", "{\"unfin");
  JsonLines(folder / "m.jsonl").write(json::object());
  EXPECT_EQ(read_file(folder / "m.jsonl"), "{}\n");
}

TEST(JsonLines, GoesOnWhenTheDiskIsFullAndWarnsOnce) {
  const TempDir folder;
  JsonLines lines(folder / "m.jsonl");
  lines.write(1);
  {
    const FileSizeLimit limit(4096);
    testing::internal::CaptureStderr();
    lines.write(std::string(5000, 'x'));  // part of it fits
    lines.write(std::string(5000, 'y'));
  }
  const std::string warnings = testing::internal::GetCapturedStderr();
  lines.write(2);
  EXPECT_EQ(read_file(folder / "m.jsonl"), "1\n2\n");
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 1) << warnings;
}

TEST(JsonLines, SaysWhatCannotBeCreated) {
  expect_error([] { JsonLines lines("/nonexistent/m.jsonl"); }, ExitCode::cannot_create,
               "/nonexistent/m.jsonl");
}

TEST(WriteJsonFile, WritesAnIndentedFile) {
  const TempDir folder;
  write_json_file(folder / "c.json", {{"seed", 1337}});
  EXPECT_EQ(read_file(folder / "c.json"), "{\n  \"seed\": 1337\n}\n");
}

}  // namespace
}  // namespace tg::test
