#include "checkpoint/host_snapshot.h"

#include <map>
#include <set>

#include "checkpoint/checkpoint_manifest.h"
#include "checkpoint/resume.h"
#include "tests/files/testing.h"
#include "tests/train/train_steps.h"
#include "train/run_state.h"
#include "weights/safetensors/safetensors.h"

namespace tg {
namespace {

class HostSnapshotTest : public testing::Test {
 protected:
  HostSnapshotTest()
      : settings(test::tiny_settings(test::tiny_switches())), rank(settings, alone) {}

  RunState make_state() {
    return {settings,
            at::kCPU,
            alone,
            rank.model().plan(),
            rank.table(),
            rank.optimizer(),
            rank.model().fp8_scales(),
            rank.feeder()};
  }
  static std::map<std::string, at::Tensor> share(RunState& state, int rank, int world_size) {
    HostSnapshot snapshot(at::kCPU, rank, world_size);
    snapshot.copy_tensors(state);
    snapshot.copy_scalars(state);
    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, value] : snapshot.wait()) {
      EXPECT_TRUE(tensors.emplace(name, value.clone()).second) << name << " twice";
    }
    return tensors;
  }

  // Names of the tensors that differ between ranks.
  std::set<std::string> sharded(const RunState& state) const {
    std::set<std::string> names;
    for (const auto& [name, value] : rank.optimizer().sharded_state())
      names.insert("optimizer." + name);
    for (const auto& [name, value] : state.average->sharded_state())
      names.insert("average." + name);
    return names;
  }

  Communicator alone;
  Settings settings;
  test::TrainingRank rank;
};

TEST_F(HostSnapshotTest, SharesOfAllRanksHoldEveryReplicatedTensorOnceAndAreOfLikeSize) {
  rank.step();
  auto state = make_state();
  state.start_average();
  const auto own = sharded(state);
  std::size_t tensors = 0, bytes = 0, largest = 0;
  state.for_each_tensor([&](const auto& name, const at::Tensor& value) {
    if (own.contains(name)) return;
    ++tensors;
    bytes += value.nbytes();
    largest = std::max(largest, value.nbytes());
  });
  std::map<std::string, int> found;
  for (int r = 0; r < 3; ++r) {
    std::size_t own_bytes = 0;
    for (const auto& [name, value] : share(state, r, 3)) {
      if (own.contains(name) || value.dim() == 0) continue;
      ++found[name];
      own_bytes += value.nbytes();
    }
    EXPECT_LE(own_bytes, bytes / 3 + largest);
  }
  for (const auto& [name, count] : found) EXPECT_EQ(count, 1) << name;
  EXPECT_LE(found.size(), tensors);
}

TEST_F(HostSnapshotTest, IsNotChangedByStepsAfterIt) {
  auto state = make_state();
  rank.step();
  HostSnapshot snapshot(at::kCPU, 0, 1);
  snapshot.copy_tensors(state);
  snapshot.copy_scalars(state);
  std::map<std::string, at::Tensor> before;
  for (const auto& [name, value] : snapshot.wait()) before[name] = value.clone();
  rank.step();
  for (const auto& [name, value] : snapshot.wait()) EXPECT_TRUE(at::equal(value, before.at(name)));
  EXPECT_FALSE(at::equal(rank.table()["qo_bank"].detach(), before.at("parameter.qo_bank")));
}

TEST_F(HostSnapshotTest, WrittenByThreeRanksIsLoadedByOneToTheBit) {
  const test::TempDir folder;
  auto state = make_state();
  state.start_average();
  rank.step();
  state.step = 7;
  ResumePoint point{.checkpoint = folder.path(), .manifest = {}};
  const auto own = sharded(state);
  for (int r = 0; r < 3; ++r) {
    // One rank has all shards; other ranks would only repeat them.
    NamedTensors tensors;
    for (auto& [name, value] : share(state, r, 3)) {
      if (r == 0 || !own.contains(name)) tensors.emplace_back(name, value);
    }
    const auto name = "rank-" + std::to_string(r);
    point.manifest.files.push_back({name, save_safetensors(folder / name, tensors)});
  }
  const auto expected = state.save();
  rank.step();
  state.step = 0;
  state.average.reset();
  point.tensors = read_checkpoint(folder.path(), point.manifest);
  load_checkpoint(point, state);
  EXPECT_TRUE(point.tensors.empty());
  const auto loaded = state.save();
  EXPECT_EQ(loaded.scalars, expected.scalars);
  ASSERT_EQ(loaded.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < loaded.tensors.size(); ++i) {
    EXPECT_TRUE(at::equal(loaded.tensors[i].second, expected.tensors[i].second))
        << loaded.tensors[i].first;
  }
}

TEST_F(HostSnapshotTest, ACheckpointOfAnotherModelIsRefused) {
  auto state = make_state();
  ResumePoint point{.checkpoint = "a folder", .manifest = {}};
  for (auto& [name, value] : share(state, 0, 1)) {
    point.tensors.emplace_back(name, name == "parameter.qo_bank" ? at::zeros({1, 2}) : value);
  }
  try {
    load_checkpoint(point, state);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_data);
    EXPECT_NE(std::string(error.what()).find("'parameter.qo_bank' has shape 1×2"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tg
