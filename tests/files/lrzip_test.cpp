#include "files/lrzip.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "tests/files/testing.h"

namespace tg::test {
namespace {

std::string weights(size_t size) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 5);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(std::lround(normal(random)));
  return bytes;
}

std::string error_of(const std::string& packed, size_t size) {
  return test::error_of(ExitCode::bad_data, [&] {
    decompress_lrzip({{packed, size, "f: tok_emb"}});
  });
}

TEST(Lrzip, UnpacksWhatItPackedAllAtOnce) {
  const std::vector<std::string> contents = {weights(30000), "", "x", std::string(100'000, '\0'),
                                             weights(60)};
  const auto packed = compress_lrzip(contents);
  std::vector<LrzipStream> streams;
  for (size_t i = 0; i < contents.size(); ++i)
    streams.push_back({packed[i], contents[i].size(), "f"});
  EXPECT_EQ(decompress_lrzip(streams), contents);
  EXPECT_EQ(packed[1], "");
  EXPECT_LT(packed[0].size(), 17000);
  EXPECT_LT(packed[3].size(), 1000);
}

TEST(Lrzip, OtherThanOneWholeStreamOfTheExpectedSizeIsRefused) {
  const std::string whole = compress_lrzip({weights(30000)})[0];
  EXPECT_EQ(error_of(whole, 29999),
            "f: tok_emb: expected 29999 bytes when unpacked, found a stream of 30000");
  EXPECT_EQ(error_of("some text that is none of it", 9),
            "f: tok_emb: expected an lrzip stream, found 28 bytes of something else");
  EXPECT_EQ(error_of(whole, 0),
            fmt::format("f: tok_emb: expected no bytes, found {}", whole.size()));
  EXPECT_EQ(error_of("", 9),
            "f: tok_emb: expected an lrzip stream, found 0 bytes of something else");
  // A head that promises more than there is.
  std::string lies = whole;
  lies[8] = 1;
  expect_start(error_of(lies, 65536 + 30000), "f: tok_emb: lrzip failed (");
  for (const size_t size : {size_t{24}, size_t{40}, whole.size() / 2, whole.size() - 1})
    expect_start(error_of(whole.substr(0, size), 30000), "f: tok_emb: lrzip failed (");
  for (const size_t at : {size_t{200}, whole.size() / 2, whole.size() - 5}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    expect_start(error_of(flipped, 30000), "f: tok_emb: lrzip failed (");
  }
  expect_start(error_of(whole + "more", 30000), "f: tok_emb: lrzip failed (");
}

TEST(Lrzip, IsAskedForWhereItIsNotInstalled) {
  require_lrzip();
  const TempDir empty;
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", empty.path().c_str(), 1);
  const auto message = test::error_of(ExitCode::missing_input, require_lrzip);
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(message,
            "artifacts packed per group: expected the program lrzip in PATH, found none; install "
            "the package of that name");
}

// Becomes, in a mount name space of its own, a process whose current folder and /tmp cannot be
// written, but for /tmp/given. False where that is not allowed.
bool enter_read_only_folders() {
  const auto user = ::geteuid(), group = ::getegid();
  if (::unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) return false;
  if (user != 0) {
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", fmt::format("0 {} 1", user));
    write_file("/proc/self/gid_map", fmt::format("0 {} 1", group));
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", "/tmp", "tmpfs", 0, nullptr) == 0 && ::mkdir("/tmp/given", 0700) == 0 &&
         ::mount("none", "/tmp/given", "tmpfs", 0, nullptr) == 0 &&
         ::mount(nullptr, "/tmp", nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0 &&
         ::chdir("/tmp") == 0;
}

TEST(Lrzip, FindsOutBeforeThatNoFolderForTemporaryFilesCanBeWritten) {
  constexpr int kNotAllowed = 77;
  const auto packed = compress_lrzip({"some text"});
  const pid_t child = ::fork();
  if (child == 0) {
    if (!enter_read_only_folders()) ::_exit(kNotAllowed);
    ::unsetenv("TMPDIR");
    const auto unpacked = [&] { return decompress_lrzip({{packed[0], 9, "f: tok_emb"}}); };
    for (const auto& message : {test::error_of(ExitCode::cannot_create, require_lrzip),
                                test::error_of(ExitCode::cannot_create, unpacked)})
      EXPECT_EQ(message,
                "artifacts packed per group need the program lrzip, and it a folder for temporary "
                "files that can be written (TMPDIR, /tmp or the current folder): expected 11 bytes "
                "when unpacked, found 0: Failed to runzip_chunk in runzip_fd");
    ::setenv("TMPDIR", "/tmp/given", 1);
    EXPECT_EQ(unpacked()[0], "some text");
    ASSERT_EQ(::chdir("/tmp/given"), 0);
    for (const char* cannot_be_written : {"/tmp", "/tmp/none"}) {
      ::setenv("TMPDIR", cannot_be_written, 1);
      EXPECT_EQ(unpacked()[0], "some text");
    }
    EXPECT_TRUE(std::filesystem::is_empty("/tmp/given"));
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "no mount name spaces here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tg::test
