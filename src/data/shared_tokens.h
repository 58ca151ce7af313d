#pragma once
// The tokens of a text's two splits, which one process of a host makes while all of them read. They
// are in two files without a name: in memory, or where the kernel refuses that, in the folder for
// temporary files. Both go with the last process that has them open, however it ends.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "files/file.h"

namespace tg {

// Calls `make` in one process of this host, and returns its text in all that call this.
using OncePerHost = std::function<std::string(const std::function<std::string()>& make)>;

// For a process that is alone on its host.
inline std::string once_alone(const std::function<std::string()>& make) {
  return make();
}

class SharedTokens {
 public:
  enum class State : std::uint32_t { making, ended, failed };
  enum Split : std::size_t { train, val };

  // The process that calls this is the maker. Errors: cannot_create.
  SharedTokens();
  // What another process of this host, whose address() that is, makes; null where this process may
  // not open it.
  static std::unique_ptr<SharedTokens> open(const std::string& address);
  ~SharedTokens();
  SharedTokens(const SharedTokens&) = delete;
  SharedTokens& operator=(const SharedTokens&) = delete;

  // For the maker's thread alone. Readers are told of what was appended by publish(), end() and
  // fail(). Errors of append(): io (no memory or disk space left).
  std::string address() const;
  void append(Split split, std::span<const std::uint16_t> tokens);
  // Tokenised so far, from so many bytes of the files.
  void publish(std::int64_t text_bytes, std::int64_t bytes_read);
  void end();
  void fail(ExitCode code, const std::string& message);

  // For any thread of any process.
  State state() const;
  std::int64_t tokens(Split split) const;
  std::int64_t text_bytes() const;
  std::int64_t bytes_read() const;
  Error error() const;  // of a maker that failed
  // Whether the maker's process, or its object, has gone.
  bool maker_has_gone() const;
  // Copies tokens [from, from + out.size()), which must exist. Errors: io.
  void read(Split split, std::int64_t from, std::span<std::uint16_t> out) const;

  // A number that changes with everything above; wait_for_change() returns when it is no longer
  // `seen`, on wake(), and at the latest after `limit`.
  std::uint32_t changes() const;
  void wait_for_change(std::uint32_t seen, std::chrono::milliseconds limit) const;
  void wake() const;  // the waiting threads of all processes

 private:
  struct Control;

  SharedTokens(File train_file, File val_file, bool is_maker);
  void tell();

  File files_[2];
  bool is_maker_;
  Control* control_ = nullptr;  // the first page of files_[train], read-only but for the maker
};

}  // namespace tg
