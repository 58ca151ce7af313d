#pragma once
// Writes checkpoints in a thread of its own.
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "checkpoint/checkpoint_manifest.h"
#include "checkpoint/host_snapshot.h"
#include "comm/peer_watch.h"

namespace tg {

struct SavedCheckpoint {
  std::string folder;
  std::uint64_t bytes = 0;  // of all ranks' files, as rank 0 knows them
  double write_ms = 0;
  std::string error;  // why there is none; empty: there is one
};

// Writes checkpoints beside training. Every rank writes its part of the state, then rank 0 the
// manifest; the folder gets its name when all of it is on the disk, and older checkpoints beyond
// `keep` are removed after that. The ranks agree through the store, so that training waits for no
// disk: before it publishes or removes anything rank 0 waits for every rank's digest, however long
// that takes, and broadcasts the outcome. A rank that no longer writes is ended by the watch, when
// others wait for it in take().
class CheckpointWriter {
 public:
  // `root`: the folder of the checkpoints. `manifest`: of every checkpoint, without step, model and
  // files. `store`: null for a single rank.
  CheckpointWriter(std::string root, Manifest manifest, std::size_t keep, const Store& store,
                   int rank);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Begins to write the snapshot of the model's state, which must not change before take().
  // Precondition: no checkpoint is in flight. All ranks call it for the same steps.
  void start(const ModelRecord& model, HostSnapshot& snapshot);
  // A checkpoint was started and not taken.
  bool started() const { return thread_.joinable(); }
  // The checkpoint that was started has ended.
  bool ended() const { return ended_; }
  // Waits for the end of the checkpoint: under `watch`, which may be null, as work with progress
  // while this rank writes, and as a wait for the others while it waits for them. Equal on every
  // rank, except bytes and write_ms. Precondition: started(). Throws Error(unavailable) if the
  // store is gone, with rank 0.
  SavedCheckpoint take(PeerWatch* watch);

 private:
  SavedCheckpoint write(const ModelRecord& model, HostSnapshot& snapshot);
  std::string write_share(std::int64_t step, HostSnapshot& snapshot) const;
  SavedCheckpoint publish(const ModelRecord& model, const std::string& own);
  SavedCheckpoint wait_for_outcome(std::int64_t step, const std::string& own);
  std::string key(std::string_view what) const;
  std::string wait_for(const std::string& key);

  const std::string root_;
  const Manifest manifest_;
  const std::size_t keep_;
  const Store store_;
  const int rank_;
  std::int64_t number_ = 0;  // of checkpoints started
  std::thread thread_;
  std::atomic<bool> waits_ = false;  // for another rank's key in the store
  std::atomic<bool> ended_ = false;
  std::atomic<std::int64_t> bytes_written_ = 0, reports_ = 0;  // of progress, since the last look
  SavedCheckpoint result_;                                     // once ended
  std::string store_lost_;                                     // why, instead
};

}  // namespace tg
