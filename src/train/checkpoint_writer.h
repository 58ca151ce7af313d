#pragma once
// Writes checkpoints in a thread of its own.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "comm/rendezvous.h"
#include "store/checkpoint_manifest.h"
#include "train/host_snapshot.h"

namespace tg {

struct SavedCheckpoint {
  std::string folder;
  std::uint64_t bytes = 0;  // of all ranks' files
  double write_ms = 0;
  std::string error;  // why there is none; empty: there is one
};

// Every rank writes its share of the state, rank 0 then the manifest; the folder gets its name when
// all of it is on the disk, and older checkpoints beyond `keep` are removed after that. The ranks
// agree through the store, so that nothing of training waits for a disk.
class CheckpointWriter {
 public:
  // `root`: the folder of the checkpoints. `manifest`: of every checkpoint, without step and files.
  // `store`: null for a single rank.
  CheckpointWriter(std::string root, Manifest manifest, std::size_t keep, const Store& store,
                   int rank);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Begins to write; `snapshot` must not change before take(). Wants no checkpoint under way. All
  // ranks call it for the same steps.
  void start(std::int64_t step, HostSnapshot& snapshot);
  // A checkpoint was started and not taken.
  bool started() const { return thread_.joinable(); }
  // The checkpoint that was started has ended.
  bool ended() const { return ended_; }
  // Waits for its end, with report_progress() as its bytes are written. The same on every rank, but
  // for write_ms. Wants started().
  SavedCheckpoint take();

 private:
  SavedCheckpoint write(std::int64_t step, HostSnapshot& snapshot);
  // What this rank wrote, or why it did not, for all ranks → the result.
  SavedCheckpoint publish(std::int64_t step, const std::string& own);
  std::string key(std::string_view what) const;
  std::string wait_for(const std::string& key) const;

  const std::string root_;
  const Manifest manifest_;
  const std::size_t keep_;
  const Store store_;
  const int rank_;
  std::int64_t number_ = 0;  // of checkpoints started
  std::thread thread_;
  std::atomic<bool> ended_ = false;
  std::atomic<std::int64_t> bytes_written_ = 0;
  SavedCheckpoint result_;  // once ended
};

}  // namespace tg
