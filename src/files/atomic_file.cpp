#include "files/atomic_file.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/progress.h"
#include "files/folder.h"

namespace tg {
namespace {

// Bytes between two progress reports, and between two syncs. Without the syncs the system would
// cache all bytes at once and, on slow storage, write them in one fsync of many minutes.
constexpr size_t kPart = 1 << 20, kSyncedAtOnce = 16 << 20;

constexpr std::string_view kTemporary = ".tmp.";

// Returns NAME of NAME.tmp.PID; empty for another kind of name.
std::string_view file_of(std::string_view temporary) {
  const auto at = temporary.rfind(kTemporary);
  if (at == std::string_view::npos) return {};
  const auto pid = temporary.substr(at + kTemporary.size());
  const bool is_number = !pid.empty() && pid.find_first_not_of("0123456789") == pid.npos;
  return is_number ? temporary.substr(0, at) : std::string_view();
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path)
    : file_(path, fmt::format("{}{}{}", path, kTemporary, ::getpid())) {
  std::error_code ignored;
  REQUIRE(!std::filesystem::is_directory(path, ignored), ExitCode::cannot_create,
          "{}: is a folder, expected a file", path);
  REQUIRE(file_.create(), creation_error(errno),
          "{}: cannot be created ({}); choose an existing, writable folder", path,
          std::strerror(errno));
}

void AtomicFile::require(bool done, const char* doing) const {
  REQUIRE(done, ExitCode::io, "{}: {} failed ({}); the previous file is untouched", file_.path(),
          doing, std::strerror(errno));
}

void AtomicFile::write(const void* bytes, size_t count) {
  assert(file_.is_open());
  const auto* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const size_t part = std::min(count, kPart);
    xxh3_.add(from, part);
    require(file_.write(from, part), "writing");
    bytes_ += part;
    from += part;
    count -= part;
    report_progress(static_cast<std::int64_t>(part));
    unsynced_ += part;
    if (unsynced_ < kSyncedAtOnce) continue;
    require(file_.sync_data(), "fdatasync");
    report_progress(0);
    unsynced_ = 0;
  }
}

FileDigest AtomicFile::commit() {
  assert(file_.is_open());
  require(file_.sync(), "fsync");
  report_progress(0);
  require(file_.close(), "closing");
  require(file_.rename(), "renaming");
  const auto folder = std::filesystem::path(file_.path()).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
  return {bytes_, xxh3_.value()};
}

void remove_abandoned_files(const std::string& folder,
                            const std::function<bool(std::string_view name)>& is_own) {
  std::error_code ignored;
  for (const auto& name : names_in(folder, ignored)) {
    const auto file = file_of(name);
    if (!file.empty() && is_own(file)) remove_abandoned(folder + "/" + name);
  }
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace tg
