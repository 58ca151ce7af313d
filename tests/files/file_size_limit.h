#pragma once
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

namespace tg::test {

// As long as it lives, a file's bytes beyond `bytes` are not written: EFBIG, midway, as a full disk
// fails a write.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    if (::getrlimit(RLIMIT_FSIZE, &before_) != 0) std::abort();
    const rlimit limited{bytes, before_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &limited) != 0) std::abort();
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit before_{};
};

}  // namespace tg::test
