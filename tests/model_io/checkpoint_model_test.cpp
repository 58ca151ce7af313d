#include "model_io/checkpoint_model.h"

#include <filesystem>
#include <functional>
#include <map>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/host_snapshot.h"
#include "model_io/model_files.h"
#include "model_io/model_path.h"
#include "recipes/recipe.h"
#include "tests/files/testing.h"
#include "tests/train/train_steps.h"
#include "train/run_state.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {
namespace {

namespace fs = std::filesystem;

// A run of a few steps whose checkpoints hold a whole state.
class CheckpointModelTest : public testing::Test {
 protected:
  // After `steps` steps saves the state as one rank does, and as two that share it.
  void train(const std::function<void(AveragingConfig&)>& set, int steps, std::int64_t loops = 0) {
    auto config = test::tiny_switches();
    config.recurrence = {.num_loops = loops, .loop_start = 1, .loop_end = 2};
    settings = test::tiny_settings(config);
    auto& averaging = settings.averaging;
    averaging.ema_enabled = averaging.swa_enabled = averaging.lawa_enabled = false;
    set(averaging);
    rank.emplace(settings, alone);
    state.emplace(settings, at::kCPU, alone, rank->model().plan(), rank->table(), rank->optimizer(),
                  rank->model().fp8_scales(), rank->feeder());
    state->start_average();
    for (int i = 1; i <= steps; ++i) {
      rank->step();
      state->average->update(i, /*lr_scale=*/0.1);
    }
    for (const int files : {1, 2}) save(files, files);
  }

  void save(std::int64_t step, int files) {
    state->step = step;
    HostSnapshot snapshot(at::kCPU, /*rank=*/0, /*world_size=*/1);
    snapshot.copy_tensors(*state);
    snapshot.copy_scalars(*state);
    std::vector<NamedTensors> shares(static_cast<std::size_t>(files));
    std::size_t i = 0;
    for (const auto& named : snapshot.wait()) shares[i++ % shares.size()].push_back(named);
    const auto folder = begin_checkpoint(root(), step);
    Manifest manifest{.step = step, .world_size = files};
    if (stores_record) manifest.model = state->record();
    for (i = 0; i < shares.size(); ++i) {
      const auto name = "rank-" + std::to_string(i);
      manifest.files.push_back({name, save_safetensors(folder + "/" + name, shares[i])});
    }
    publish_checkpoint(root(), manifest);
  }

  bool stores_record = true;  // as older programs did not

  std::string root() const { return dir / "checkpoints"; }
  std::string folder_of(std::int64_t step) const { return checkpoint_folder(root(), step); }
  NamedTensors copies() const {
    NamedTensors all;
    for (const auto& [name, value] : rank->table().named_values())
      all.emplace_back(name, value.clone());
    return all;
  }
  static void expect_same(const NamedTensors& found, const NamedTensors& expected) {
    std::map<std::string, at::Tensor> by_name(found.begin(), found.end());
    ASSERT_EQ(by_name.size(), expected.size());
    for (const auto& [name, value] : expected)
      EXPECT_TRUE(test::is_same(by_name.at(name), value)) << name;
  }
  const TempDir dir;
  Communicator alone;
  Settings settings;
  std::optional<test::TrainingRank> rank;
  std::optional<RunState> state;
};

TEST_F(CheckpointModelTest, IsWhatItsRunWouldEndWithToTheBit) {
  struct Case {
    std::string which;
    int steps;
    std::function<void(AveragingConfig&)> set;
  };
  const auto ema = [](auto& a) { a.ema_enabled = true; };
  const auto lawa = [](auto& a) {
    a.lawa_enabled = true;
    a.lawa_freq = 1;
    a.lawa_k = 3;
  };
  const auto swa = [](auto& a) {
    a.swa_enabled = true;
    a.swa_every = 2;
  };
  const Case cases[] = {
      {"the average (EMA) of the weights", 3, ema},
      {"the average (LAWA, k=3) of the weights", 4, lawa},
      {"the average (EMA) of the weights", 1, lawa},  // of one copy there is no mean
      {"the average (SWA, k=2) of the weights", 5, swa},
      {"the weights as trained", 1, swa},  // SWA has not begun
      {"the weights as trained", 2, [](auto&) {}},
  };
  for (const auto& [which, steps, set] : cases) {
    SCOPED_TRACE(which + ", step " + std::to_string(steps));
    train(set, steps);
    const auto raw = copies();
    const bool averages = !state->average->apply().empty();
    for (const auto step : {1, 2}) {
      const auto model = read_checkpoint_model(folder_of(step), WeightsChoice::automatic);
      EXPECT_EQ(model.which, which);
      expect_same(model.weights, copies());
      expect_same(read_checkpoint_model(folder_of(step), WeightsChoice::raw).weights, raw);
      if (averages) {
        expect_same(read_checkpoint_model(folder_of(step), WeightsChoice::ema).weights, copies());
      } else {
        expect_error([&] { read_checkpoint_model(folder_of(step), WeightsChoice::ema); },
                     ExitCode::usage, "has no average");
      }
    }
  }
}

TEST_F(CheckpointModelTest, TheNewestValidOneIsTaken) {
  train([](auto&) {}, 1);
  EXPECT_EQ(read_newest_model(root(), WeightsChoice::automatic).folder, folder_of(2));
  write_file(folder_of(2) + "/rank-1", "damaged");
  EXPECT_EQ(read_newest_model(root(), WeightsChoice::automatic).folder, folder_of(1));
  expect_error([&] { read_checkpoint_model(folder_of(2), WeightsChoice::automatic); },
               ExitCode::bad_data, "rank-1");
  fs::remove(folder_of(1) + "/manifest.json");
  expect_error([&] { read_newest_model(root(), WeightsChoice::automatic); }, ExitCode::bad_data,
               "expected a valid checkpoint, found none (");
  expect_error([&] { read_newest_model(dir / "none", WeightsChoice::automatic); },
               ExitCode::missing_input, "expected a valid checkpoint, found none");
}

TEST_F(CheckpointModelTest, ItsRecordIsThatOfItsOwnStep) {
  for (const bool stored : {true, false}) {
    SCOPED_TRACE(stored);
    stores_record = stored;
    train([](auto&) {}, 1, /*loops=*/1);
    state->stage = 1;
    state->fake_quant = true;
    save(2, 1);
    const auto before = read_checkpoint_model(folder_of(1), WeightsChoice::automatic).record;
    const auto after = read_newest_model(root(), WeightsChoice::automatic).record;
    EXPECT_EQ(before, (ModelRecord{stored ? "record" : "", 0, false, 1}));
    EXPECT_EQ(after, (ModelRecord{stored ? "record" : "", 1, true, 2}));
  }
}

// As a run with KEEP=1 does that goes on.
TEST_F(CheckpointModelTest, ANewestOneIsTheSameOnEveryRankThoughTheChosenOneIsGone) {
  train([](auto& averaging) { averaging.ema_enabled = true; }, 2);
  const auto newest = read_newest_model(root(), WeightsChoice::automatic).weights;
  fs::copy(root(), dir / "damaged", fs::copy_options::recursive);
  for (const int step : {1, 2})
    write_file(checkpoint_folder(dir / "damaged", step) + "/rank-0", "");
  settings.runtime.init_from = dir.path();
  as_ranks(2, [&](Communicator& communicator) {
    auto of_rank = settings;
    choose_model(of_rank, communicator);
    communicator.barrier();
    if (communicator.rank() == 0) {
      save(3, 2);
      prune_checkpoints(root(), 1);
    } else {
      of_rank.runtime.init_from = dir / "damaged";  // rank 0 alone reads
    }
    communicator.barrier();
    const auto table = trained_model(model_spec(of_rank), of_rank, {}, communicator).parameters;
    for (const auto& [name, value] : newest) EXPECT_TRUE(table[name].detach().equal(value)) << name;
  });
}

}  // namespace
}  // namespace tg::test
