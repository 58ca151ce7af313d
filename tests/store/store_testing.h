#pragma once
// A folder that goes away, whole files, Python, and errors by code and text.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "base/error.h"

namespace tg {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "store_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Runs a program in `folder`; what it asserts and prints shows in the test's output.
inline void run_python(const TempFolder& folder, const std::string& program) {
  put_file(folder / "program.py", program);
  const std::string command = "cd '" + folder.path() + "' && " TEST_PYTHON " program.py";
  ASSERT_EQ(std::system(command.c_str()), 0) << program;
}

inline void expect_error(const std::function<void()>& call, ExitCode exit_code,
                         const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "expected an error about: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), exit_code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "expected: " << part << "\nfound: " << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

}  // namespace tg
