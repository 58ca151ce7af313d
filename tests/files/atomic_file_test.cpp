#include "files/atomic_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/progress.h"
#include "tests/files/file_size_limit.h"
#include "tests/files/testing.h"

namespace tg::test {
namespace {

size_t files_in(const TempDir& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TempDir folder;
  const std::string path = folder / "file";
  {
    AtomicFile file(path);
    file.write("new", 3);
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
  }
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, LeavesTheOldFileAndNoTemporaryUnlessCommitted) {
  const TempDir folder;
  write_file(folder / "file", "old");
  {
    AtomicFile file(folder / "file");
    file.write("new", 3);
  }
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(AtomicFile, ALongWriteTellsItsProgressPartByPart) {
  const TempDir folder;
  std::int64_t bytes = 0, most_at_once = 0, others = 0;
  const ProgressListener listener([&](std::int64_t amount) {
    bytes += amount;
    most_at_once = std::max(most_at_once, amount);
    others += amount == 0;
  });
  const std::string content(20 << 20, 'x');
  write_file_atomically(folder / "file", content);
  EXPECT_EQ(bytes, std::ssize(content));
  EXPECT_LE(most_at_once, 1 << 20);
  EXPECT_EQ(others, 2);  // durable after 16 MB, and at the end
  EXPECT_EQ(std::filesystem::file_size(folder / "file"), content.size());
}

TEST(AtomicFile, WhatAKilledProcessLeftIsRemovedAndNothingElse) {
  const TempDir folder;
  const std::vector<std::string> kept{"model.tmp.", "model.tmp.1x", "model.tmp", "other.tmp.1"};
  for (const auto& name : kept) write_file(folder / name, "x");
  write_file(folder / "model.tmp.1", "of a killed process");
  write_file(folder / "model.tmp.4000000000", "of another");
  AtomicFile written(folder / "model");  // by a living one
  const auto is_own = [](std::string_view name) { return name == "model"; };
  remove_abandoned_files(folder.path(), is_own);
  EXPECT_EQ(files_in(folder), kept.size() + 1);
  for (const auto& name : kept) EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  written.write("whole", 5);
  written.commit();
  EXPECT_EQ(read_file(folder / "model"), "whole");
  remove_abandoned_files(folder / "none", is_own);
}

TEST(AtomicFile, SaysWhatCannotBeCreated) {
  const TempDir folder;
  expect_error([&] { AtomicFile file(folder / "none/file"); }, ExitCode::cannot_create,
               "cannot be created");
  // Before anything is written.
  expect_error([&] { AtomicFile file(folder.path()); }, ExitCode::cannot_create, "is a folder");
  EXPECT_FALSE(std::filesystem::exists(fmt::format("{}.tmp.{}", folder.path(), ::getpid())));
}

TEST(AtomicFile, TellsSizeAndXxh3OfWhatWasWritten) {
  const TempDir folder;
  const std::string long_text(1000, 'a');
  AtomicFile empty(folder / "empty"), parts(folder / "parts"), whole(folder / "whole");
  EXPECT_EQ(empty.commit(), (FileDigest{0, 0x2d06800538d394c2}));  // as xxHash documents
  parts.write(long_text.data(), 1);
  parts.write(long_text.data(), 999);
  whole.write(long_text.data(), 1000);
  const auto digest = whole.commit();
  EXPECT_EQ(parts.commit(), digest);
  EXPECT_EQ(digest.bytes, 1000u);
}

// A limit on file sizes fails writes midway as a full disk does.
TEST(AtomicFile, KeepsTheOldFileWhenWritingFails) {
  const TempDir folder;
  write_file(folder / "file", "old");
  {
    const FileSizeLimit limit(4096);
    const std::string bytes(10000, 'x');
    expect_error([&] { write_file_atomically(folder / "file", bytes); }, ExitCode::io, "untouched");
  }
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(files_in(folder), 1u);
}

}  // namespace
}  // namespace tg::test
