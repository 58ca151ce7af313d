#pragma once
#include <functional>
#include <mutex>
#include <string>

namespace tg {

// Dump of LibTorch's flight recorder: this rank's last collectives. Saved when a collective fails,
// as FOLDER/rank_N, the name that torchfrtrace expects.
class FlightRecord {
 public:
  using Dump = std::function<std::string()>;

  FlightRecord(const std::string& folder, int rank, Dump dump);
  // Makes LibTorch's own watchdog, which aborts the process by itself, write to this file too.
  void save_for_watchdog() const;
  // Saves on the first call. Returns the path; empty if it could not be written or the dump took
  // longer than two seconds.
  std::string save();

 private:
  const std::string path_;
  const int rank_;
  const Dump dump_;
  std::once_flag once_;
  std::string saved_;
};

}  // namespace tg
