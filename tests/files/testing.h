#pragma once
// A folder that goes away, whole files, Python, and errors by code and text.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "base/error.h"

namespace tg::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "train_gpt_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs a program in `folder`; what it asserts and prints shows in the test's output.
inline void run_python(const TempDir& folder, const std::string& program) {
  write_file(folder / "program.py", program);
  const std::string command = "cd '" + folder.path() + "' && " TEST_PYTHON " program.py";
  ASSERT_EQ(std::system(command.c_str()), 0) << program;
}

// Runs `action`, which must throw an Error of `code`; its message.
template <typename Action>
std::string error_of(ExitCode code, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.exit_code()), static_cast<int>(code)) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

inline void expect_start(const std::string& text, const std::string& start) {
  EXPECT_EQ(text.substr(0, start.size()), start);
}

inline void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in '" << text << "'";
}

inline void expect_error(const std::function<void()>& call, ExitCode exit_code,
                         const std::string& part) {
  expect_part(error_of(exit_code, call), part);
}

}  // namespace tg::test
