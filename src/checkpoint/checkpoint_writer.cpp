#include "checkpoint/checkpoint_writer.h"

#include <chrono>
#include <sstream>

#include "base/elapsed.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/strings.h"
#include "checkpoint/checkpoint_folder.h"
#include "comm/convert.h"
#include "weights/safetensors/safetensors.h"

namespace tg {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(10);

// Prefix of a failure: in a rank's report to rank 0, which is otherwise "BYTES XXH3", and in rank
// 0's outcome.
constexpr std::string_view kFailed = "failed ";
// Key of rank 0's outcome; the key of a rank's report is its number.
constexpr std::string_view kOutcome = "outcome";

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

void CheckpointWriter::start(const ModelRecord& model, HostSnapshot& snapshot) {
  ++number_;
  ended_ = false;
  thread_ = std::thread([this, model, &snapshot] {
    try {
      result_ = write(model, snapshot);
    } catch (const std::exception& error) {
      store_lost_ = first_line(error.what());
    }
    ended_ = true;
  });
}

SavedCheckpoint CheckpointWriter::take(PeerWatch* watch) {
  while (!ended_) {
    if (waits_) {
      const PeerWatch::Scope waiting(watch);
      while (waits_ && !ended_) std::this_thread::sleep_for(kPoll);
    } else {
      const PeerWatch::Work writing(watch, "writing a checkpoint to " + root_);
      while (!waits_ && !ended_) {
        if (reports_.exchange(0) > 0) report_progress(bytes_written_.exchange(0));
        std::this_thread::sleep_for(kPoll);
      }
    }
  }
  thread_.join();
  REQUIRE(
      store_lost_.empty(), ExitCode::unavailable,
      "a peer was lost while a checkpoint was written ({}); the rank that failed first says why",
      store_lost_);
  return result_;
}

SavedCheckpoint CheckpointWriter::write(const ModelRecord& model, HostSnapshot& snapshot) {
  const ProgressListener listener([this](std::int64_t bytes) {
    bytes_written_ += bytes;
    ++reports_;
  });
  const auto began = Clock::now();
  const auto own = write_part(model.step, snapshot);
  auto result = rank_ == 0 ? publish(model, own) : wait_for_outcome(model.step, own);
  result.write_ms = milliseconds_since(began);
  return result;
}

// Returns this rank's report.
std::string CheckpointWriter::write_part(std::int64_t step, HostSnapshot& snapshot) const {
  try {
    const auto& part = snapshot.wait();
    return encode(save_safetensors(begin_checkpoint(root_, step) + "/" + file_of(rank_), part));
  } catch (const std::exception& error) {
    return std::string(kFailed) + error.what();
  }
}

// Publishes on rank 0, once every rank has ended its part, so that no rank writes to files that are
// published or removed.
SavedCheckpoint CheckpointWriter::publish(const ModelRecord& model, const std::string& own) {
  SavedCheckpoint result{.folder = checkpoint_folder(root_, model.step), .error = ""};
  auto manifest = manifest_;
  manifest.step = model.step;
  manifest.model = model;
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    const auto report = rank == 0 ? own : wait_for(key(std::to_string(rank)));
    if (report.starts_with(kFailed) && result.error.empty())
      result.error = report.substr(kFailed.size());
    manifest.files.push_back({file_of(rank), decode(report)});
    result.bytes += manifest.files.back().digest.bytes;
  }
  try {
    if (result.error.empty()) publish_checkpoint(root_, manifest);
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  if (result.error.empty()) {
    prune_checkpoints(root_, keep_);
  } else {
    remove_incomplete_checkpoints(root_);
  }
  if (store_) {
    store_->set(key(kOutcome),
                bytes_of(result.error.empty() ? "saved" : std::string(kFailed) + result.error));
  }
  return result;
}

// Reports to rank 0 and waits for its outcome, on the other ranks.
SavedCheckpoint CheckpointWriter::wait_for_outcome(std::int64_t step, const std::string& own) {
  SavedCheckpoint result{.folder = checkpoint_folder(root_, step), .error = ""};
  store_->set(key(std::to_string(rank_)), bytes_of(own));
  const auto outcome = wait_for(key(kOutcome));
  if (outcome.starts_with(kFailed)) result.error = outcome.substr(kFailed.size());
  return result;
}

std::string CheckpointWriter::key(std::string_view what) const {
  return fmt::format("checkpoint/{}/{}", number_, what);
}

// Polls the store: a blocking get() would hold its lock, or fail after its own timeout.
std::string CheckpointWriter::wait_for(const std::string& key) {
  waits_ = true;
  while (!store_->check({key})) std::this_thread::sleep_for(kPoll);
  waits_ = false;
  return text_of(store_->get(key));
}

}  // namespace tg
