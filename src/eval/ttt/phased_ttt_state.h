#pragma once
// Files with the state that phased test-time training resumes from after a stop.
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/elapsed.h"
#include "files/file_lock.h"
#include "weights/safetensors/safetensors.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Digest of names and values, such as "0123456789abcdef".
std::string digest_of(const NamedTensors& tensors);

// State files of one rank: PREFIX.phase-K.safetensors after K phases. Each is overwritten
// repeatedly; since ranks do not write at the same time, files of K phases are kept until every
// rank has one of K + 1. PREFIX.lock prevents other processes from writing them.
class TttStateFiles {
 public:
  // Creates and locks PREFIX.lock, so that an unwritable folder is an error before the work, and
  // removes partial files of killed processes. Throws ExitCode::cannot_create, also if another
  // process writes there, and io.
  explicit TttStateFiles(std::string prefix);

  std::string path(std::size_t phases) const;
  // The numbers of phases for which there are files.
  std::set<std::int64_t> phases() const;
  // PREFIX.phase-K.safetensors, for messages.
  std::string pattern() const;

  // Saves atomically. All tensors must have floating-point dtypes. Throws ExitCode::cannot_create,
  // io.
  void save(std::size_t phases, const NamedTensors& state, const Metadata& origin) const;
  // Copies the file's tensors into `state`, whose names and shapes must match. Throws
  // ExitCode::missing_input, io, bad_data; config if the file's origin differs, naming all
  // differences.
  void load(std::size_t phases, NamedTensors& state, const Metadata& origin) const;
  // Removes all files but the one of `kept` phases. Failure to remove one is a warning.
  void remove_others(std::optional<std::size_t> kept) const;

 private:
  std::string prefix_;
  LockFile lock_;
};

// Decides when a state is saved again: so rarely that saving takes at most a fraction `share` of
// the time, by the duration of the last save, at first estimated from its size.
class SavingPace {
 public:
  SavingPace(double share, std::int64_t bytes) : share_(share), cost_s_(bytes / kBytesPerSecond) {}

  bool due() const { return seconds_since(ended_) * share_ >= cost_s_; }
  // Records that a save, which ended now, took `cost_s` seconds.
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
