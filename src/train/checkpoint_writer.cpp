#include "train/checkpoint_writer.h"

#include <chrono>
#include <sstream>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/progress.h"
#include "comm/convert.h"
#include "store/checkpoint_folder.h"
#include "store/safetensors.h"

namespace tg {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(10);
// For another rank's share; the others allow rank 0 twice as long.
constexpr auto kShareTimeout = std::chrono::seconds(300);

// What one rank tells rank 0, and rank 0 all others: "BYTES XXH3", or why there is no file.
constexpr std::string_view kFailed = "failed ";

std::string encode(const FileDigest& digest) {
  return fmt::format("{} {}", digest.bytes, digest.xxh3);
}

FileDigest decode(const std::string& text) {
  FileDigest digest;
  std::istringstream(text) >> digest.bytes >> digest.xxh3;
  return digest;
}

std::string file_of(int rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string root, Manifest manifest, std::size_t keep,
                                   const Store& store, int rank)
    : root_(std::move(root)),
      manifest_(std::move(manifest)),
      keep_(keep),
      store_(store ? store->clone() : store),
      rank_(rank) {}

CheckpointWriter::~CheckpointWriter() {
  if (started()) thread_.join();
}

void CheckpointWriter::start(std::int64_t step, HostSnapshot& snapshot) {
  ++number_;
  ended_ = false;
  bytes_written_ = 0;
  thread_ = std::thread([this, step, &snapshot] {
    result_ = write(step, snapshot);
    ended_ = true;
  });
}

SavedCheckpoint CheckpointWriter::take() {
  for (std::int64_t seen = 0; !ended_; std::this_thread::sleep_for(kPoll)) {
    const auto written = bytes_written_.load();
    if (written > seen) report_progress(written - std::exchange(seen, written));
  }
  thread_.join();
  return result_;
}

SavedCheckpoint CheckpointWriter::write(std::int64_t step, HostSnapshot& snapshot) {
  const ProgressListener listener([this](std::int64_t bytes) { bytes_written_ += bytes; });
  const auto began = Clock::now();
  std::string own;
  try {
    const auto& share = snapshot.wait();
    own = encode(save_safetensors(begin_checkpoint(root_, step) + "/" + file_of(rank_), share));
  } catch (const std::exception& error) {
    own = std::string(kFailed) + error.what();
  }
  auto result = publish(step, own);
  result.write_ms = milliseconds_since(began);
  return result;
}

SavedCheckpoint CheckpointWriter::publish(std::int64_t step, const std::string& own) try {
  SavedCheckpoint result{.folder = checkpoint_folder(root_, step), .error = ""};
  if (rank_ != 0) {
    store_->set(key(std::to_string(rank_)), bytes_of(own));
    const auto saved = wait_for(key("saved"));
    if (saved.starts_with(kFailed)) result.error = saved.substr(kFailed.size());
    return result;
  }
  auto manifest = manifest_;
  manifest.step = step;
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    const auto told = rank == 0 ? own : wait_for(key(std::to_string(rank)));
    if (told.starts_with(kFailed) && result.error.empty()) {
      result.error = told.substr(kFailed.size());
    }
    manifest.files.push_back({file_of(rank), decode(told)});
    result.bytes += manifest.files.back().digest.bytes;
  }
  try {
    if (result.error.empty()) publish_checkpoint(root_, manifest);
  } catch (const Error& error) {
    result.error = error.what();
  }
  if (result.error.empty()) {
    prune_checkpoints(root_, keep_);
  } else {
    remove_incomplete_checkpoints(root_);
  }
  const auto failed = result.error.empty() ? "" : std::string(kFailed) + result.error;
  if (store_) store_->set(key("saved"), bytes_of(failed.empty() ? "ok" : failed));
  return result;
} catch (const std::exception& error) {
  return {.folder = "", .error = error.what()};  // the store is gone, and so is rank 0
}

std::string CheckpointWriter::key(std::string_view what) const {
  return fmt::format("checkpoint/{}/{}", number_, what);
}

// Polled: a blocking get() would hold the store's lock, or fail after the store's own timeout.
std::string CheckpointWriter::wait_for(const std::string& key) const {
  const auto deadline = Clock::now() + (rank_ == 0 ? 1 : 2) * kShareTimeout;
  while (!store_->check({key})) {
    if (Clock::now() > deadline) return std::string(kFailed) + key + " did not come in time";
    std::this_thread::sleep_for(kPoll);
  }
  return text_of(store_->get(key));
}

}  // namespace tg
