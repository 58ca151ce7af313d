#pragma once
// Python programs with torch, each a fork of one process that has loaded it: that takes 1.7
// seconds.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/files/testing.h"

namespace tg::test {

class TorchPython {
 public:
  TorchPython() {
    int answers[2];
    if (::pipe(answers) != 0) std::abort();
    const std::string command = TEST_PYTHON " '" SOURCE_DIR "/tests/weights/torch_python.py' ";
    folders_ = ::popen((command + std::to_string(answers[1])).c_str(), "w");
    if (folders_ == nullptr) std::abort();
    answers_ = answers[0];
    ::close(answers[1]);
  }
  ~TorchPython() {
    ::pclose(folders_);
    ::close(answers_);
  }
  TorchPython(const TorchPython&) = delete;
  TorchPython& operator=(const TorchPython&) = delete;

  // False: program.py of that folder failed, or Python itself has ended.
  bool run(const TempDir& folder) {
    if (ended_) return false;  // a write would be SIGPIPE
    std::fprintf(folders_, "%s\n", folder.path().c_str());
    std::fflush(folders_);
    char failed = 1;
    ended_ = ::read(answers_, &failed, 1) != 1;
    return !ended_ && failed == 0;
  }

 private:
  std::FILE* folders_ = nullptr;
  int answers_ = -1;
  bool ended_ = false;
};

// Runs a program in `folder`; what it asserts and prints shows in the test's output.
inline void run_torch(const TempDir& folder, const std::string& program) {
  static TorchPython python;
  write_file(folder / "program.py", program);
  ASSERT_TRUE(python.run(folder)) << program;
}

}  // namespace tg::test
