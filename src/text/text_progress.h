#pragma once
// The progress line of text that is being tokenised: shown on a terminal alone, at most ten times a
// second.
#include <cstdint>
#include <string>
#include <vector>

#include "base/elapsed.h"

namespace tg {

class TextProgress {
 public:
  // `doing` begins the line. The files' sizes give the share done, unless one has none: "-", the
  // standard input, a pipe.
  TextProgress(std::string doing, const std::vector<std::string>& files);

  // So much is done, and so many bytes of the files are read.
  void show(std::int64_t text_bytes, std::int64_t tokens, std::int64_t bytes_read);
  // Clears the line.
  static void clear();

 private:
  const std::string doing_;
  const std::int64_t total_bytes_;  // 0: unknown
  const Clock::time_point began_ = Clock::now();
  Clock::time_point shown_ = began_;
};

}  // namespace tg
