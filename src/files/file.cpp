#include "files/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/is_in.h"
#include "files/file_lock.h"
#include "files/file_writer.h"

namespace tg {
namespace {

// Returns whether the path leads to nothing that this user can read; other errors are the
// machine's.
bool is_path_error(int error) {
  constexpr int path_errors[] = {ENOENT, ENOTDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, ENXIO};
  return is_in(path_errors, error);
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "folder";
  return S_ISFIFO(mode) ? "pipe" : "device";
}

int open_descriptor(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) {
    const int error = errno;
    fail(is_path_error(error) ? ExitCode::missing_input : ExitCode::io, "cannot open {} ({})", path,
         std::strerror(error));
  }
  return descriptor;
}

}  // namespace

File::File(std::string path, int descriptor, bool owned)
    : path_(std::move(path)), descriptor_(descriptor), owned_(owned) {}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      owned_(std::exchange(other.owned_, false)) {}

File::~File() {
  if (owned_ && descriptor_ >= 0) ::close(descriptor_);
}

File File::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  File file(path, open_descriptor(path, O_NONBLOCK), true);
  const auto mode = file.status().st_mode;
  REQUIRE(S_ISREG(mode), ExitCode::missing_input,
          "cannot open {} (expected a regular file, found a {})", path, kind_of(mode));
  return file;
}

File File::open_stream(const std::string& path) {
  File file(path, open_descriptor(path, 0), true);
  REQUIRE(!S_ISDIR(file.status().st_mode), ExitCode::missing_input,
          "cannot open {} (expected a file, found a folder)", path);
  return file;
}

File File::standard_input() {
  return {"standard input", STDIN_FILENO, false};
}

File File::temporary(const std::string& dir) {
  std::string name = dir + "/temporary_XXXXXX";
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  REQUIRE(descriptor >= 0, ExitCode::cannot_create, "cannot create a temporary file in {} ({})",
          dir, std::strerror(errno));
  ::unlink(name.c_str());
  return {"a temporary file in " + dir, descriptor, true};
}

std::optional<File> File::in_memory(const std::string& name) {
  const int descriptor = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (descriptor < 0) return {};
  return File("a file in memory for " + name, descriptor, true);
}

struct stat File::status() const {
  struct stat status {};
  REQUIRE(::fstat(descriptor_, &status) == 0, ExitCode::io, "cannot examine {} ({})", path_,
          std::strerror(errno));
  return status;
}

File::Version File::version() const {
  const auto now = status();
  return {.size = now.st_size,
          .inode = static_cast<std::int64_t>(now.st_ino),
          .modified_ns = now.st_mtim.tv_sec * 1'000'000'000 + now.st_mtim.tv_nsec};
}

bool File::has_name() const {
  return tg::has_name(descriptor_, path_);
}

void File::prefetch(std::int64_t offset, std::int64_t bytes) const {
  ::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

std::int64_t File::read_at(std::int64_t offset, std::span<std::byte> bytes) const {
  std::int64_t done = 0;
  while (done < std::ssize(bytes)) {
    const auto got = ::pread(descriptor_, bytes.data() + done, bytes.size() - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    REQUIRE(got >= 0, ExitCode::io, "reading {} failed at byte {} ({})", path_, offset + done,
            std::strerror(errno));
    if (got == 0) break;
    done += got;
  }
  return done;
}

std::int64_t File::read_some(std::span<char> bytes) {
  ssize_t got = 0;
  do got = ::read(descriptor_, bytes.data(), bytes.size());
  while (got < 0 && errno == EINTR);
  REQUIRE(got >= 0, ExitCode::io, "reading {} failed ({})", path_, std::strerror(errno));
  return got;
}

void File::append(std::span<const std::byte> bytes) {
  REQUIRE(write_fully(descriptor_, bytes.data(), bytes.size()) == bytes.size(), ExitCode::io,
          "writing {} failed ({})", path_, std::strerror(errno));
}

std::string read_whole_file(const std::string& path, std::int64_t limit) {
  const File file = File::open(path);
  const std::int64_t size = file.size();
  REQUIRE(size <= limit, ExitCode::bad_data, "{} is too large (at most {} bytes, found {})", path,
          limit, size);
  std::string text(static_cast<std::size_t>(size), '\0');
  const auto got = file.read_at(0, std::as_writable_bytes(std::span(text)));
  text.resize(static_cast<std::size_t>(got));
  return text;
}

}  // namespace tg
