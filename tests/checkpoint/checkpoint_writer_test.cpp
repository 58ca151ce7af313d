#include "checkpoint/checkpoint_writer.h"

#include <filesystem>
#include <fstream>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "tests/checkpoint/wait.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

constexpr int kWorld = 3;

// Three ranks in one process. Their parts are empty: only the order of events matters here.
class CheckpointWriterTest : public testing::Test {
 protected:
  struct Rank {
    Rank(const std::string& root, const Store& store, int rank)
        : snapshot(at::kCPU, rank, kWorld),
          writer(root, {.world_size = kWorld}, /*keep=*/1, store, rank) {}
    HostSnapshot snapshot;
    CheckpointWriter writer;
  };

  CheckpointWriterTest() {
    for (int rank = 0; rank < kWorld; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(root_, store_, rank));
    }
  }

  std::string hidden(std::int64_t step) const {
    return fmt::format("{}/.step-{:08}.tmp", root_, step);
  }
  std::string share(std::int64_t step, int rank) const {
    return fmt::format("{}/rank-{:05}.safetensors", hidden(step), rank);
  }
  // Makes the write fail: a folder has the file's name.
  void let_fail(std::int64_t step, int rank) const { fs::create_directories(share(step, rank)); }

  // Starts all ranks except `last`, which has written its part, and waits until they have written
  // theirs; then starts `last`. Returns every rank's error.
  std::vector<std::string> save(std::int64_t step, int last) {
    const auto part = share(step, last) + ".tmp.1";
    fs::create_directories(hidden(step));
    std::ofstream(part) << "a part";
    for (int rank = 0; rank < kWorld; ++rank) {
      if (rank != last) start(step, rank);
    }
    for (int rank = 0; rank < kWorld; ++rank) {
      const bool written =
          rank == last || test::eventually([&] { return fs::exists(share(step, rank)); });
      EXPECT_TRUE(written) << rank;
    }
    for (int rank = 0; rank < kWorld; ++rank) EXPECT_EQ(has_ended(rank), rank == last) << rank;
    EXPECT_TRUE(fs::exists(part));
    start(step, last);
    std::vector<std::string> errors;
    for (const auto& rank : ranks_) errors.push_back(rank->writer.take(nullptr).error);
    return errors;
  }
  // Also true before the rank's first save.
  bool has_ended(int rank) const {
    const auto& writer = ranks_[static_cast<std::size_t>(rank)]->writer;
    return !writer.started() || writer.ended();
  }
  void start(std::int64_t step, int rank) {
    auto& own = *ranks_[static_cast<std::size_t>(rank)];
    own.writer.start({.step = step}, own.snapshot);
  }

  const test::TempDir folder_;
  const std::string root_ = folder_ / "checkpoints";
  const Store store_ = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(CheckpointWriterTest, IsPublishedOnceTheLastRankHasWritten) {
  std::int64_t step = 0;
  for (int last = 0; last < kWorld; ++last) {
    ++step;
    EXPECT_EQ(save(step, last), std::vector<std::string>(kWorld));
    EXPECT_EQ(checkpoint_steps(root_), std::vector<std::int64_t>{step});
    const auto folder = checkpoint_folder(root_, step);
    const auto manifest = read_manifest(folder);
    EXPECT_EQ(manifest.files.size(), kWorld);
    EXPECT_NO_THROW(read_checkpoint(folder, manifest));
  }
}

TEST_F(CheckpointWriterTest, AFailureOfOneRankIsThatOfAllWhoeverIsLast) {
  std::int64_t step = 0;
  for (int last = 0; last < kWorld; ++last) {
    for (int failing = 0; failing < kWorld; ++failing) {
      ++step;
      let_fail(step, failing);
      const auto errors = save(step, last);
      EXPECT_NE(errors[0].find(share(step, failing)), std::string::npos) << errors[0];
      EXPECT_EQ(errors, std::vector<std::string>(kWorld, errors[0]));
      EXPECT_EQ(checkpoint_steps(root_), std::vector<std::int64_t>{});
      EXPECT_FALSE(fs::exists(hidden(step)));
    }
  }
}

// A TCPStore whose server process has exited.
class LostStore final : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>&) override {
    throw std::runtime_error("Connection reset by peer\nwith a backtrace");
  }
};

TEST_F(CheckpointWriterTest, WithoutAWordOfRank0ItIsALostPeer) {
  Rank rank(root_, c10::make_intrusive<LostStore>(), 1);
  rank.writer.start({.step = 1}, rank.snapshot);
  try {
    rank.writer.take(nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::unavailable);
    EXPECT_EQ(std::string(error.what()),
              "a peer was lost while a checkpoint was written (Connection reset by peer); the rank "
              "that failed first says why");
  }
}

}  // namespace
}  // namespace tg
