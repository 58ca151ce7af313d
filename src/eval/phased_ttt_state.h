#pragma once
// Saved state of phased test-time training.
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/elapsed.h"
#include "config/phased_ttt_config.h"
#include "files/file_lock.h"
#include "weights/named_tensors.h"
#include "weights/safetensors.h"

namespace tg {

// Returns a digest of names and values, such as "0123456789abcdef".
std::string digest_of(const NamedTensors& tensors);

// What a state depends on, a text by its name: the settings and `others`.
Metadata ttt_origin(PhasedTttConfig config, Metadata others);

// One rank's files, PREFIX.phase-K.safetensors with K phases done. Each is replaced repeatedly; as
// ranks do not replace theirs at once, the files of K phases stay until every rank has one of K +
// 1. PREFIX.lock keeps another process from writing them.
class TttStateFiles {
 public:
  // Creates and locks PREFIX.lock, so that a place that cannot be written is an error before the
  // work, and removes what killed processes left half written. Errors: cannot_create (also where
  // another process writes there), io.
  explicit TttStateFiles(std::string prefix);

  std::string path(std::size_t phases) const;
  bool has(std::size_t phases) const;
  // The numbers of phases of which there are files.
  std::set<std::int64_t> phases() const;
  // PREFIX.phase-K.safetensors, for messages.
  std::string pattern() const;

  // All tensors are of floating-point dtypes. Atomically. Errors: cannot_create, io.
  void save(std::size_t phases, const NamedTensors& state, const Metadata& origin) const;
  // Copies the file's tensors into `state`, which has their names and shapes. Throws Error:
  // missing_input, io, bad_data; config if the file has another origin, naming all differences.
  void load(std::size_t phases, NamedTensors& state, const Metadata& origin) const;
  // Removes all but the one of so many phases. What cannot be removed is a warning.
  void remove_others(std::optional<std::size_t> kept) const;

 private:
  std::string prefix_;
  LockFile lock_;
};

// Decides when a state is saved again: so rarely that saving takes at most the fraction `share` of
// the time, by what the last save took, at first by the state's size.
class SavingPace {
 public:
  SavingPace(double share, std::int64_t bytes) : share_(share), cost_s_(bytes / kBytesPerSecond) {}

  bool due() const { return seconds_since(ended_) * share_ >= cost_s_; }
  // Saving took so many seconds, until now.
  void saved(double cost_s) {
    cost_s_ = cost_s;
    ended_ = Clock::now();
  }

 private:
  static constexpr double kBytesPerSecond = 5e8;
  double share_, cost_s_;
  Clock::time_point ended_ = Clock::now();
};

}  // namespace tg
