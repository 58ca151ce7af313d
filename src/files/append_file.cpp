#include "files/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "files/file_writer.h"

namespace tg {

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

void AppendFile::truncate(std::int64_t size) {
  if (::ftruncate(fd_, size) == 0) size_ = size;
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

}  // namespace tg
