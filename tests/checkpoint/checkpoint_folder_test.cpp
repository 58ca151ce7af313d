#include "checkpoint/checkpoint_folder.h"

#include <filesystem>
#include <set>
#include <thread>

#include "files/atomic_file.h"
#include "tests/files/testing.h"

namespace tg::test {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;
using Names = std::set<std::string>;

class CheckpointFolder : public testing::Test {
 protected:
  // Saves a checkpoint of one file.
  void save(std::int64_t step, const std::string& bytes = "weights") {
    const auto folder = begin_checkpoint(root_, step);
    AtomicFile file(folder + "/rank-00000.safetensors");
    file.write(bytes.data(), bytes.size());
    Manifest manifest;
    manifest.step = step;
    manifest.files = {{"rank-00000.safetensors", file.commit()}};
    publish_checkpoint(root_, manifest);
  }
  std::string bytes_of(std::int64_t step) const {
    return read_file(checkpoint_folder(root_, step) + "/rank-00000.safetensors");
  }
  Names names() const {
    Names all;
    for (const auto& entry : fs::directory_iterator(root_)) all.insert(entry.path().filename());
    return all;
  }

  const TempDir folder_;
  const std::string root_ = folder_ / "checkpoints";
};

TEST_F(CheckpointFolder, HasItsNameOnlyOncePublished) {
  EXPECT_EQ(checkpoint_steps(root_), Steps{});
  begin_checkpoint(root_, 100);
  EXPECT_EQ(checkpoint_steps(root_), Steps{});
  save(100);
  EXPECT_EQ(checkpoint_steps(root_), (Steps{100}));
  EXPECT_EQ(names(), (Names{"step-00000100"}));
  EXPECT_EQ(checkpoint_folder(root_, 100), root_ + "/step-00000100");
  EXPECT_EQ(bytes_of(100), "weights");
}

TEST_F(CheckpointFolder, ListsTheNewestFirstAndIgnoresForeignNames) {
  for (const std::int64_t step : {0, 90, 1'234'567'890, 100}) save(step);
  for (const char* name :
       {"step-", "step-1", "step-000000007", "step--0000001", "step-00000001x",
        "step-99999999999999999999", ".step-00000007", "7", ".step-00000007.tmp"})
    fs::create_directory(root_ + "/" + name);
  write_file(root_ + "/step-00000008", "a file");
  EXPECT_EQ(checkpoint_steps(root_), (Steps{1'234'567'890, 100, 90, 0}));
}

TEST_F(CheckpointFolder, EveryRankMayBeginIt) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([&] {
      for (std::int64_t step = 0; step < 50; ++step) EXPECT_NO_THROW(begin_checkpoint(root_, step));
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(names().size(), 50u);
}

TEST_F(CheckpointFolder, SaysWhatCannotBeCreated) {
  write_file(root_, "a file");
  expect_error([&] { begin_checkpoint(root_, 1); }, ExitCode::cannot_create, "cannot be created");
  expect_error([&] { checkpoint_steps(root_); }, ExitCode::io, "listing checkpoints failed");
  prune_checkpoints(root_, 1);
  remove_incomplete_checkpoints(root_);
}

TEST_F(CheckpointFolder, ReplacesOneOfTheSameStep) {
  save(100, "damaged");
  save(200);
  save(100, "again");
  EXPECT_EQ(bytes_of(100), "again");
  EXPECT_EQ(names(), (Names{"step-00000100", "step-00000200"}));
}

TEST_F(CheckpointFolder, KeepsTheOldOneWhenTheNewOneFails) {
  save(100, "old");
  Manifest manifest;
  manifest.step = 100;
  expect_error([&] { publish_checkpoint(root_, manifest); }, ExitCode::cannot_create,
               ".step-00000100.tmp/manifest.json");
  EXPECT_EQ(bytes_of(100), "old");
  EXPECT_EQ(names(), Names{"step-00000100"});
}

TEST_F(CheckpointFolder, IsNotPublishedWithoutAllItsFiles) {
  const auto folder = begin_checkpoint(root_, 100);
  write_file(folder + "/rank-00000.safetensors", "weights");
  Manifest manifest;
  manifest.step = 100;
  manifest.files = {{"rank-00000.safetensors", {7, 0}}, {"rank-00001.safetensors", {7, 0}}};
  const auto publish = [&] { publish_checkpoint(root_, manifest); };
  expect_error(publish, ExitCode::io,
               "rank-00001.safetensors: expected a file of 7 bytes, found none");
  write_file(folder + "/rank-00001.safetensors", "weigh");
  expect_error(publish, ExitCode::io, "rank-00001.safetensors: expected 7 bytes, found 5");
  EXPECT_EQ(names(), Names{".step-00000100.tmp"});
  write_file(folder + "/rank-00001.safetensors", "weights");
  publish();
  EXPECT_EQ(names(), Names{"step-00000100"});
}

TEST_F(CheckpointFolder, PruneKeepsTheNewestAndForeignNames) {
  for (const std::int64_t step : {100, 400, 300, 200}) save(step);
  fs::create_directory(root_ + "/best");
  fs::create_directory(root_ + "/.step-00000100.pruned");  // killed while pruning
  write_file(root_ + "/.step-00000100.pruned/x", "x");
  prune_checkpoints(root_, 4);
  EXPECT_EQ(checkpoint_steps(root_), (Steps{400, 300, 200, 100}));
  prune_checkpoints(root_, 2);
  EXPECT_EQ(names(), (Names{"step-00000400", "step-00000300", "best"}));
  prune_checkpoints(folder_ / "none", 1);
}

// A run that repeatedly resumes from an earlier step must not keep a checkpoint for each abandoned
// step.
TEST_F(CheckpointFolder, PruneKeepsAsManyOfThoseThatWereLeftBehind) {
  for (const std::int64_t step : {100, 200, 300, 400}) save(step);
  set_aside_newer(root_, 100);
  save(200);
  write_file(root_ + "/abandoned-step-1", "no checkpoint's name");
  prune_checkpoints(root_, 2);
  EXPECT_EQ(names(), (Names{"step-00000100", "step-00000200", "abandoned-step-00000300",
                            "abandoned-step-00000400", "abandoned-step-1"}));
  prune_checkpoints(root_, 1);
  EXPECT_EQ(names(), (Names{"step-00000200", "abandoned-step-00000400", "abandoned-step-1"}));
}

TEST_F(CheckpointFolder, WhatAKilledSaveLeftIsRemoved) {
  save(100);
  const auto leave = [&](const std::string& name) {
    fs::create_directory(root_ + "/" + name);
    write_file(root_ + "/" + name + "/rank-00000.safetensors", "left");
  };
  leave(".step-00000200.tmp");
  leave(".step-00000100.tmp");
  leave(".step-00000100.old");     // killed after the new one was renamed
  leave(".step-00000300.old");     // killed before that
  leave(".step-00000050.pruned");  // killed during removal
  leave(".step-1.tmp");
  remove_incomplete_checkpoints(root_);
  EXPECT_EQ(names(), (Names{"step-00000100", "step-00000300", ".step-1.tmp"}));
  EXPECT_EQ(bytes_of(100), "weights");
  EXPECT_EQ(bytes_of(300), "left");
  remove_incomplete_checkpoints(folder_ / "none");
}

}  // namespace
}  // namespace tg::test
