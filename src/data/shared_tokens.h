#pragma once
// Tokens of a text's two splits, which one process of a host produces while all its processes read.
// They are in two unnamed files: in memory or, if the kernel refuses that, in the folder for
// temporary files. The files disappear with the last process that has them open, however it exits.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "data/ids.h"
#include "files/file.h"

namespace tg {

// Calls `make` in one process of this host, and returns its text in all processes that call this.
using OncePerHost = std::function<std::string(const std::function<std::string()>& make)>;

// For the only process of its host.
inline std::string once_alone(const std::function<std::string()>& make) {
  return make();
}

class SharedTokens {
 public:
  enum class State : std::uint32_t { producing, ended, failed };
  enum Split : std::size_t { train, val };

  // Makes the calling process the producer. `id_bytes`: of an id in memory, 2 or 4. Throws
  // Error(cannot_create).
  explicit SharedTokens(int id_bytes);
  // Opens the tokens that another process of this host produces with the same `id_bytes`; `address`
  // is its address(). Returns null if this process may not open them.
  static std::unique_ptr<SharedTokens> open(const std::string& address, int id_bytes);
  ~SharedTokens();
  SharedTokens(const SharedTokens&) = delete;
  SharedTokens& operator=(const SharedTokens&) = delete;

  // Producer's interface, for one thread only. publish(), end() and fail() notify readers of what
  // was appended. append() throws Error(io) if memory or disk space is exhausted.
  std::string address() const;
  void append(Split split, std::span<const TokenId> tokens);
  // Reports the progress: text_bytes of text tokenized, bytes_read of the files read.
  void publish(std::int64_t text_bytes, std::int64_t bytes_read);
  void end();
  void fail(ExitCode code, const std::string& message);

  // Thread-safe, in any process.
  State state() const { return control_->state; }
  std::int64_t tokens(Split split) const { return control_->tokens[split]; }
  std::int64_t text_bytes() const { return control_->text_bytes; }
  std::int64_t bytes_read() const { return control_->bytes_read; }
  // Returns why the producer failed.
  Error error() const { return {static_cast<ExitCode>(control_->exit_code), control_->message}; }
  // Returns whether the producer's process has exited, or closed its object.
  bool producer_has_exited() const;
  // Copies as many tokens as `out` has from `from` on, which must exist. Throws Error(io).
  void read(Split split, std::int64_t from, const MutableIds& out) const;

  // Counter that each change of the state above increments. wait_for_change() returns once it
  // differs from `seen`, on wake(), or after `limit`.
  std::uint32_t changes() const { return control_->changes; }
  void wait_for_change(std::uint32_t seen, std::chrono::milliseconds limit) const;
  void wake() const;  // wakes the waiting threads of all processes

 private:
  struct Control {
    std::atomic<std::uint32_t> changes = 0;  // used as a futex
    std::atomic<State> state = State::producing;
    std::atomic<std::int64_t> tokens[2] = {};
    std::atomic<std::int64_t> text_bytes = 0, bytes_read = 0;
    // Written before the state becomes `failed`.
    std::int32_t exit_code = 0;
    char message[3072] = {};
  };

  SharedTokens(File train_file, File val_file, int id_bytes, bool is_producer);
  void notify();

  File files_[2];
  int id_bytes_;
  bool is_producer_;
  Control* control_ = nullptr;  // first page of files_[train]; read-only except in the producer
};

}  // namespace tg
