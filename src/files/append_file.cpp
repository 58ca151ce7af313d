#include "files/append_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "files/file_writer.h"

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

AppendFile::AppendFile(std::string path, std::string record)
    : path_(std::move(path)), record_(std::move(record)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  REQUIRE(fd_ >= 0, ExitCode::cannot_create, "{}: cannot be created ({})", path_,
          std::strerror(errno));
  size_ = ::lseek(fd_, 0, SEEK_END);
}

AppendFile::~AppendFile() {
  ::close(fd_);
}

void AppendFile::write(std::string_view record) {
  const auto done = write_fully(fd_, record.data(), record.size());
  if (done == record.size()) {
    size_ += static_cast<std::int64_t>(done);
    return;
  }
  const int error = errno;
  // An incomplete record would make the next one unreadable too.
  const bool cut = done == 0 || ::ftruncate(fd_, size_) == 0;
  if (!cut) size_ += static_cast<std::int64_t>(done);
  if (!std::exchange(warned_, true)) {
    log_warn("{}: a {} could not be written ({}); the run continues without it", path_, record_,
             std::strerror(error));
  }
}

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
