#include "files/file_writer.h"

#include <fcntl.h>

#include <cassert>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "files/file_lock.h"

namespace tg {
namespace {

// Calls write(done), which returns the number of bytes written or -1, until all are written or a
// call fails.
std::size_t repeat(std::size_t count, auto&& write) {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t written = write(done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

}  // namespace

FileWriter::FileWriter(std::string path, std::string temporary)
    : path_(std::move(path)), temporary_(std::move(temporary)) {}

FileWriter::~FileWriter() {
  if (is_open()) ::close(descriptor_);
}

bool FileWriter::create() {
  assert(!is_open());
  ::unlink(temporary_.c_str());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (!is_open()) return false;
  remove_on_exit_.emplace(temporary_);
  // For remove_abandoned(), which removes nothing if the file system has no locks.
  [[maybe_unused]] const bool locked = try_lock(descriptor_, FileLock::exclusive);
  return true;
}

bool FileWriter::write(const void* bytes, std::size_t count) {
  return write_fully(descriptor_, bytes, count) == count;
}

bool FileWriter::write_at(std::int64_t offset, const void* bytes, std::size_t count) {
  const auto* const from = static_cast<const char*>(bytes);
  const auto write = [&](std::size_t done) {
    return ::pwrite(descriptor_, from + done, count - done, offset + static_cast<off_t>(done));
  };
  return repeat(count, write) == count;
}

bool FileWriter::close() {
  assert(is_open());
  return ::close(std::exchange(descriptor_, -1)) == 0;
}

bool FileWriter::rename() {
  assert(remove_on_exit_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return false;
  remove_on_exit_->keep();
  return true;
}

bool remove_abandoned(const std::string& temporary) {
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool abandoned = try_lock(descriptor, FileLock::exclusive);
  const bool removed = abandoned && ::unlink(temporary.c_str()) == 0;
  ::close(descriptor);
  return removed;
}

std::size_t write_fully(int descriptor, const void* bytes, std::size_t count) {
  const auto* const from = static_cast<const char*>(bytes);
  return repeat(count,
                [&](std::size_t done) { return ::write(descriptor, from + done, count - done); });
}

}  // namespace tg
