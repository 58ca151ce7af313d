#include "files/jsonl.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tg {
namespace {

// Returns the offset at which the last complete line ends. Reads backwards in blocks, the last line
// only.
int64_t end_of_last_line(int fd, int64_t size) {
  char block[4096];
  while (size > 0) {
    const int64_t begin = std::max<int64_t>(0, size - static_cast<int64_t>(sizeof block));
    const ssize_t got = ::pread(fd, block, static_cast<size_t>(size - begin), begin);
    if (got != size - begin) return size;
    for (int64_t i = got; i > 0; --i)
      if (block[i - 1] == '\n') return begin + i;
    size = begin;
  }
  return 0;
}

}  // namespace

JsonLines::JsonLines(std::string path) : file_(std::move(path), "line") {
  const auto end = end_of_last_line(file_.descriptor(), file_.size());
  if (end < file_.size()) file_.truncate(end);  // if this fails, one line stays unreadable
}

bool truncate_after(const std::string& path,
                    const std::function<bool(const nlohmann::json&)>& is_last) {
  std::ifstream file(path);
  std::int64_t read = 0, end = -1;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    read += static_cast<std::int64_t>(line.size()) + 1;
    const auto value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (value.is_object() && is_last(value)) end = read;
  }
  if (end < 0) return false;
  REQUIRE(::truncate(path.c_str(), end) == 0, ExitCode::io, "{}: cannot be truncated ({})", path,
          std::strerror(errno));
  return true;
}

}  // namespace tg
