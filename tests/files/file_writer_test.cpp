#include "files/file_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "files/folder.h"
#include "tests/files/file_size_limit.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

class FileWriterTest : public testing::Test {
 protected:
  FileWriterTest() { fs::create_directory(folder_); }
  ~FileWriterTest() override { fs::remove_all(folder_); }

  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_ = testing::TempDir() + "file_writer-" + std::to_string(::getpid());
  const std::string path_ = folder_ + "/file", temporary_ = folder_ + "/file.tmp";
};

TEST_F(FileWriterTest, HasItsNameOnlyWhenRenamed) {
  std::ofstream(temporary_) << "of a process that was killed";
  {
    FileWriter file(path_, temporary_);
    ASSERT_TRUE(file.create());
    EXPECT_TRUE(file.write("abcd", 4) && file.write_at(1, "X", 1) && file.write("e", 1));
    EXPECT_TRUE(file.sync_data() && file.sync() && file.close());
    EXPECT_FALSE(file.is_open());
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_TRUE(file.rename());
  }
  EXPECT_EQ(content(path_), "aXcde");
  EXPECT_FALSE(fs::exists(temporary_));
}

TEST_F(FileWriterTest, RemovesTheTemporaryUnlessRenamed) {
  std::ofstream(path_) << "old";
  for (const bool by_destructor : {true, false}) {
    FileWriter file(path_, temporary_);
    ASSERT_TRUE(file.create() && file.write("new", 3));
    if (!by_destructor) {
      remove_files_on_exit();  // what the end of a program does
      EXPECT_FALSE(fs::exists(temporary_));
    }
  }
  EXPECT_EQ(content(path_), "old");
  EXPECT_FALSE(fs::exists(temporary_));
}

TEST_F(FileWriterTest, SaysWhatFailsByErrno) {
  FileWriter nowhere(folder_ + "/none/file", folder_ + "/none/file.tmp");
  EXPECT_FALSE(nowhere.create());
  EXPECT_EQ(errno, ENOENT);
  const auto taken = folder_ + "/folder";
  ASSERT_TRUE(fs::create_directory(taken));
  FileWriter folder(taken, temporary_);
  ASSERT_TRUE(folder.create() && folder.close());
  EXPECT_FALSE(folder.rename());
  EXPECT_EQ(errno, EISDIR);
}

// A limit on file sizes fails writes midway as a full disk does.
TEST_F(FileWriterTest, CountsTheBytesBeforeAFailure) {
  {
    const test::FileSizeLimit limit(6);
    const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT, 0666);
    EXPECT_EQ(write_fully(descriptor, "1234", 4), 4u);
    EXPECT_EQ(write_fully(descriptor, "5678", 4), 2u);
    EXPECT_EQ(errno, EFBIG);
    ::close(descriptor);
    FileWriter file(path_, temporary_);
    EXPECT_TRUE(file.create());
    EXPECT_FALSE(file.write("12345678", 8));
    EXPECT_EQ(errno, EFBIG);
  }
  EXPECT_EQ(content(path_), "123456");
}

TEST_F(FileWriterTest, SyncsAFolderOrLetsItBe) {
  sync_folder(folder_);
  sync_folder(folder_ + "/none");
}

}  // namespace
}  // namespace tg
