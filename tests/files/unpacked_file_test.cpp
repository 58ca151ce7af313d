#include "files/unpacked_file.h"

#include "tests/files/packed.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::kPackers;
using test::TempDir;
using test::write_file;

// What a file unpacks to, read by parts of `part` bytes.
std::string unpacked(const std::string& path, std::size_t part = 1 << 20) {
  UnpackedFile file(path);
  std::string text, buffer(part, '\0');
  while (const auto got = file.read(buffer)) text.append(buffer, 0, got);
  return text;
}

// Some 400 KB that do not compress well, so that they are read in many parts.
std::string noise() {
  std::string text;
  std::uint32_t state = 7;
  for (int i = 0; i < 40'000; ++i) {
    state = state * 1664525 + 1013904223;
    text += fmt::format("{:09}\n", state);
  }
  return text;
}

TEST(UnpackedFile, IsTheTextWhateverTheNameAndTheSizeOfParts) {
  const TempDir dir;
  const std::string text = noise();
  write_file(dir / "plain", text);
  EXPECT_EQ(unpacked(dir / "plain", 777), text);
  for (const auto& [suffix, pack] : kPackers) {
    for (const std::string& name : {"a.txt" + std::string(suffix), std::string("other")}) {
      for (const std::size_t part : {1U, 4096U, 1U << 20}) {
        const auto expected = part == 1 ? text.substr(0, 5000) : text;
        write_file(dir / name, pack(expected));
        EXPECT_TRUE(unpacked(dir / name, part) == expected) << name << " " << part;
      }
    }
    write_file(dir / "empty", pack(""));
    EXPECT_EQ(unpacked(dir / "empty"), "") << suffix;
  }
}

TEST(UnpackedFile, GoesOnInTheStreamsBehindTheFirst) {
  const TempDir dir;
  const std::string skippable = std::string("\x5f\x2a\x4d\x18\x03\0\0\0xyz", 11);
  for (const auto& [suffix, pack] : kPackers) {
    std::string packed, expected;
    for (int i = 0; i < 300; ++i) {
      const auto line = fmt::format("line {}\n", i);
      packed += pack(i % 7 == 0 ? "" : line);
      if (i % 7 != 0) expected += line;
      if (suffix == std::string(".zst")) packed += skippable;
    }
    write_file(dir / "many", packed);
    EXPECT_EQ(unpacked(dir / "many"), expected) << suffix;
    if (suffix == std::string(".zst")) {
      write_file(dir / "skipped first", skippable + packed);
      EXPECT_EQ(unpacked(dir / "skipped first"), expected);
    } else {
      write_file(dir / "padded", packed + std::string(1024, '\0'));
      EXPECT_EQ(unpacked(dir / "padded"), expected) << suffix;
    }
  }
}

TEST(UnpackedFile, NamesTheByteWhereItIsCutShort) {
  const TempDir dir;
  for (const auto& [suffix, pack] : kPackers) {
    const std::string packed = pack(noise().substr(0, 20'000));
    const std::string path = dir / ("a.jsonl" + std::string(suffix));
    for (std::size_t size = 0; size < packed.size(); size += 1 + size / 5) {
      write_file(path, packed.substr(0, size));
      expect_part(error_of(ExitCode::bad_data, [&] { unpacked(path); }),
                  fmt::format(": expected {} data at byte {} of the file, found that it is {}",
                              suffix, size, size == 0 ? "empty" : "cut short"));
    }
    write_file(path, packed + packed.substr(0, packed.size() / 2));
    expect_part(error_of(ExitCode::bad_data, [&] { unpacked(path); }), "it is cut short");
  }
}

TEST(UnpackedFile, RefusesADamagedStreamAndWhatIsNone) {
  const TempDir dir;
  const std::string text = noise().substr(0, 20'000);
  for (const auto& [suffix, pack] : kPackers) {
    const std::string path = dir / ("a.txt" + std::string(suffix));
    const std::string packed = pack(text);
    for (std::size_t at = packed.size() / 2; at < packed.size(); at += packed.size() / 9) {
      std::string damaged = packed;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      write_file(path, damaged);
      expect_part(error_of(ExitCode::bad_data, [&] { unpacked(path); }), " data at byte ");
    }
    write_file(path, packed + "and more");
    expect_start(
        error_of(ExitCode::bad_data, [&] { unpacked(path); }),
        fmt::format("{}: expected {} data at byte {} of the file", path, suffix, packed.size()));
    write_file(path, "plain text\n");
    expect_start(
        error_of(ExitCode::bad_data, [&] { unpacked(path); }),
        fmt::format("{} is text that is not packed (expected {} data by its name)", path, suffix));
  }
}

TEST(UnpackedFile, LimitsTheRatioButNotASmallText) {
  const TempDir dir;
  for (const auto& [suffix, pack] : kPackers) {
    write_file(dir / "small", pack(std::string(1 << 20, 'a')));
    EXPECT_EQ(unpacked(dir / "small").size(), 1U << 20);
    // Streams of a file count together.
    const std::string part = pack(std::string(16 << 20, 'a'));
    std::string bomb;
    for (int i = 0; i < 10; ++i) bomb += part;
    write_file(dir / "bomb", bomb);
    const auto message = error_of(ExitCode::bad_data, [&] { unpacked(dir / "bomb"); });
    expect_part(message, "unpacks to more than 500 times its size at byte ");
  }
}

TEST(UnpackedFile, AsksForNoMoreMemoryThanItsLimit) {
  const TempDir dir;
  // A frame with a window of 256 MiB and one block.
  const std::string wide = "\x28\xb5\x2f\xfd" + std::string("\0\x90\x21\0\0text", 9);
  write_file(dir / "wide.zst", wide);
  expect_part(error_of(ExitCode::bad_data, [&] { unpacked(dir / "wide.zst"); }),
              "it needs more than 128 MiB to unpack");
}

}  // namespace
}  // namespace tg
