#include "data/shared_tokens.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <sstream>
#include <vector>

#include "data/token_ids.h"
#include "files/file_lock.h"
#include "files/folder.h"

namespace tg {
namespace {

constexpr std::int64_t page_bytes = 4096;  // tokens begin after this page in both files

File unnamed_file() {
  if (auto file = File::in_memory("tokens")) return *std::move(file);
  return File::temporary(temporary_folder());
}

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit) {
  return ::syscall(SYS_futex, &word, operation, value, limit, nullptr, 0);
}

}  // namespace

SharedTokens::SharedTokens(int id_bytes)
    : SharedTokens(unnamed_file(), unnamed_file(), id_bytes, true) {}

SharedTokens::SharedTokens(File train_file, File val_file, int id_bytes, bool is_producer)
    : files_{std::move(train_file), std::move(val_file)},
      id_bytes_(id_bytes),
      is_producer_(is_producer) {
  static_assert(sizeof(Control) <= page_bytes && std::atomic<std::int64_t>::is_always_lock_free);
  if (is_producer_) {
    const std::vector<std::byte> page(page_bytes);
    for (File& file : files_) file.append(page);
  }
  const int access = is_producer_ ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const mapped =
      ::mmap(nullptr, page_bytes, access, MAP_SHARED, files_[train].descriptor(), 0);
  REQUIRE(mapped != MAP_FAILED, ExitCode::cannot_create, "cannot map {} ({})", files_[train].path(),
          std::strerror(errno));
  control_ = is_producer_ ? new (mapped) Control : static_cast<Control*>(mapped);
  // Held until this process closes the file or exits: see producer_has_exited().
  if (is_producer_) try_lock(files_[train].descriptor(), FileLock::exclusive);
}

SharedTokens::~SharedTokens() {
  ::munmap(control_, page_bytes);
}

std::string SharedTokens::address() const {
  std::string address;
  for (const File& file : files_) {
    address +=
        fmt::format("/proc/{}/fd/{} {} ", ::getpid(), file.descriptor(), file.version().inode);
  }
  return address;
}

std::unique_ptr<SharedTokens> SharedTokens::open(const std::string& address, int id_bytes) {
  std::istringstream words(address);
  std::vector<File> files;
  std::string path;
  std::int64_t inode = 0;
  while (words >> path >> inode) {
    try {
      files.push_back(File::open(path));
      if (files.back().version().inode != inode) return nullptr;
    } catch (const Error&) {
      return nullptr;
    }
  }
  if (files.size() != 2) return nullptr;
  return std::unique_ptr<SharedTokens>(
      new SharedTokens(std::move(files[train]), std::move(files[val]), id_bytes, false));
}

void SharedTokens::append(Split split, std::span<const TokenId> tokens) {
  files_[split].append(stored_ids(tokens, id_bytes_));
  control_->tokens[split] += std::ssize(tokens);
}

void SharedTokens::notify() {
  ++control_->changes;
  wake();
}

void SharedTokens::publish(std::int64_t text_bytes, std::int64_t bytes_read) {
  control_->text_bytes = text_bytes;
  control_->bytes_read = bytes_read;
  notify();
}

void SharedTokens::end() {
  control_->state = State::ended;
  notify();
}

void SharedTokens::fail(ExitCode code, const std::string& message) {
  control_->exit_code = static_cast<int>(code);
  message.copy(control_->message, sizeof control_->message - 1);
  control_->state = State::failed;
  notify();
}

bool SharedTokens::producer_has_exited() const {
  return !is_producer_ && !others_have_locked(files_[train].descriptor());
}

void SharedTokens::read(Split split, std::int64_t from, const MutableIds& out) const {
  const auto read_into = [&]<class Id>(std::span<Id> ids) {
    const bool converts = id_bytes_ != sizeof(Id);
    std::vector<std::byte> other(converts ? ids.size() * static_cast<std::size_t>(id_bytes_) : 0);
    const auto stored =
        converts ? std::span(other) : std::span<std::byte>(std::as_writable_bytes(ids));
    const auto got = files_[split].read_at(page_bytes + from * id_bytes_, stored);
    REQUIRE(got == std::ssize(stored), ExitCode::io,
            "reading {} failed (expected {} bytes, found {})", files_[split].path(), stored.size(),
            got);
    if (converts) convert_ids(stored, {.bytes = id_bytes_}, kMaxPieces, ids);
  };
  std::visit(read_into, out);
}

void SharedTokens::wait_for_change(std::uint32_t seen, std::chrono::milliseconds limit) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec time{.tv_sec = seconds.count(),
                      .tv_nsec = std::chrono::nanoseconds(limit - seconds).count()};
  futex(control_->changes, FUTEX_WAIT, seen, &time);
}

void SharedTokens::wake() const {
  futex(control_->changes, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace tg
