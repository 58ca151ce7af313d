#pragma once
// Writes checkpoints on a background thread.
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
  std::uint64_t bytes = 0;  // total of all ranks' files; known to rank 0 alone
  double write_ms = 0;
  std::string error;  // why saving failed; empty: it succeeded
};

// Writes checkpoints while training continues. Every rank writes its part of the state, then rank 0
// the manifest; the folder is renamed to its final name once all files are durable, and older
// checkpoints beyond `keep` are removed afterwards. The ranks coordinate through the store, not
// through collectives, so writing does not block training: rank 0 waits for every rank's digest,
// however long that takes, publishes the checkpoint and broadcasts the outcome. If a rank stops
// writing, the PeerWatch ends the run when others wait for that rank in take().
class CheckpointWriter {
 public:
  // `root`: the folder of the checkpoints. `manifest`: the fields that all checkpoints share,
  // without step, model and files. `store`: null for a single rank.
  CheckpointWriter(std::string root, Manifest manifest, std::size_t keep, const Store& store,
                   int rank);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Begins to write the snapshot, which must not change before take(). Precondition: no checkpoint
  // is in flight. All ranks call it for the same steps.
  void start(const ModelRecord& model, HostSnapshot& snapshot);
  // Whether a checkpoint is in flight: started and not yet taken.
  bool started() const { return thread_.joinable(); }
  // Whether the checkpoint in flight is finished: take() will not block.
  bool ended() const { return ended_; }
  // Waits until the checkpoint is finished. Under `watch`, which may be null, this rank counts as
  // working while it writes, and as waiting while it waits for others. Equal on every rank, except
  // bytes and write_ms. Precondition: started(). Throws Error(unavailable) if the store is gone,
  // with rank 0.
  SavedCheckpoint take(PeerWatch* watch);

 private:
  SavedCheckpoint write(const ModelRecord& model, HostSnapshot& snapshot);
  std::string write_part(std::int64_t step, HostSnapshot& snapshot) const;
  SavedCheckpoint publish(const ModelRecord& model, const std::string& own);
  SavedCheckpoint wait_for_outcome(std::int64_t step, const std::string& own);
  std::string key(std::string_view what) const;
  std::string wait_for(const std::string& key);

  const std::string root_;
  const Manifest manifest_;
  const std::size_t keep_;
  const Store store_;
  const int rank_;
  std::int64_t number_ = 0;  // checkpoints started so far
  std::thread thread_;
  std::atomic<bool> waits_ = false;  // whether it waits for another rank's key in the store
  std::atomic<bool> ended_ = false;
  std::atomic<std::int64_t> bytes_written_ = 0, reports_ = 0;  // progress since take() last read it
  SavedCheckpoint result_;                                     // valid once ended_
  std::string store_lost_;  // the store's error, instead of a result
};

}  // namespace tg
