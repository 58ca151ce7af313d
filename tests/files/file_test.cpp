#include "files/file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/error.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    fs::create_directory(folder_);
    std::ofstream(folder_ + "/file") << "text";
    fs::create_symlink("loop", folder_ + "/loop");
    EXPECT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  }
  ~FileTest() override { fs::remove_all(folder_); }

  static void expect_missing(const std::function<void()>& open, const std::string& part) {
    try {
      open();
      ADD_FAILURE() << "expected an error about: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::missing_input) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }

  const std::string folder_ = testing::TempDir() + "file-" + std::to_string(::getpid());
};

// A user of the machine without rights, while it lives; root may read everything.
class Nobody {
 public:
  Nobody() { EXPECT_EQ(::seteuid(::geteuid() == 0 ? 65534 : ::geteuid()), 0); }
  ~Nobody() { EXPECT_EQ(::seteuid(::getuid()), 0); }
};

TEST_F(FileTest, APathThatCannotBeReadIsMissingInputWhateverItNames) {
  const std::pair<std::string, std::string> cases[] = {
      {"/none", "No such file or directory"},
      {"/file/below", "Not a directory"},
      {"", "found a folder"},
      {"/pipe", "found a pipe"},
      {"/loop", "symbolic links"},
      {"/" + std::string(300, 'x'), "too long"},
  };
  for (const auto& [name, part] : cases) {
    const auto path = folder_ + name;
    expect_missing([&] { File::open(path); }, "cannot open " + path + " (");
    expect_missing([&] { File::open(path); }, part);
    if (name != "/pipe") expect_missing([&] { File::open_stream(path); }, part);
  }
  expect_missing([&] { File::open("/dev/null"); }, "found a device");
  expect_missing([&] { read_whole_file(folder_, 100); }, "found a folder");
}

TEST_F(FileTest, AFileWithoutPermissionIsMissingInput) {
  fs::permissions(folder_ + "/file", fs::perms::none);
  const Nobody nobody;
  expect_missing([&] { File::open(folder_ + "/file"); }, "Permission denied");
  expect_missing([&] { File::open_stream(folder_ + "/file"); }, "Permission denied");
}

TEST_F(FileTest, ASocketIsMissingInput) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const auto path = folder_ + "/socket";
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_missing([&] { File::open(path); }, "cannot open " + path);
  ::close(descriptor);
}

TEST_F(FileTest, AStreamMayBeAPipe) {
  std::thread writer([&] { std::ofstream(folder_ + "/pipe") << "through a pipe"; });
  auto pipe = File::open_stream(folder_ + "/pipe");
  std::string text(100, '\0');
  std::size_t size = 0;
  while (const auto got = pipe.read_some(std::span(text).subspan(size)))
    size += static_cast<std::size_t>(got);
  writer.join();
  EXPECT_EQ(text.substr(0, size), "through a pipe");
}

TEST_F(FileTest, KnowsWhetherItsNameIsStillItsOwn) {
  const auto file = File::open(folder_ + "/file");
  EXPECT_TRUE(file.has_name());
  fs::rename(folder_ + "/file", folder_ + "/moved");
  EXPECT_FALSE(file.has_name());
  std::ofstream(folder_ + "/file") << "another";
  EXPECT_FALSE(file.has_name());
  EXPECT_EQ(file.size(), 4);
}

}  // namespace
}  // namespace tg
