#pragma once
#include <functional>
#include <mutex>
#include <string>

namespace tg {

// What LibTorch's flight recorder knows of this rank's last collectives. When one fails it is saved
// as FOLDER/rank_N, the name by which torchfrtrace compares ranks.
class FlightRecord {
 public:
  using Recorder = std::function<std::string()>;

  FlightRecord(std::string folder, int rank, Recorder recorder);
  // LibTorch's own watchdog, which ends the process by itself, writes there as well.
  void save_for_watchdog() const;
  // → the path, or nothing when it could not be written. Once; a recorder that hangs with the rest
  // is left behind after two seconds.
  std::string save();

 private:
  const std::string folder_;
  const int rank_;
  const Recorder recorder_;
  std::once_flag once_;
  std::string saved_;
};

}  // namespace tg
