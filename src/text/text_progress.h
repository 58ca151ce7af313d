#pragma once
// Progress line for tokenization: only shown on a terminal, at most ten times a second.
#include <cstdint>
#include <string>
#include <vector>

#include "base/elapsed.h"
#include "base/log.h"

namespace tg {

class TextProgress {
 public:
  // `doing` begins the line. The line shows a percentage if all files have a size, unlike "-",
  // standard input, or a pipe.
  TextProgress(std::string doing, const std::vector<std::string>& files);

  // Shows the progress: `text_bytes` of text are tokenized, `bytes_read` of the files are read.
  void show(std::int64_t text_bytes, std::int64_t tokens, std::int64_t bytes_read);
  // Erases the line.
  static void clear() { progress_line(""); }

 private:
  const std::string doing_;
  const std::int64_t total_bytes_;  // 0: unknown
  const Clock::time_point began_ = Clock::now();
  Clock::time_point shown_ = began_;
};

}  // namespace tg
