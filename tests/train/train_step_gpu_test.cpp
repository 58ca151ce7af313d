// Steps on a GPU, launched and replayed; skipped where there is none.
#include <ATen/cuda/CUDAContext.h>

#include "device/gpu.h"
#include "tests/train/train_steps.h"

namespace tg {
namespace {

class TrainStepGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    use_gpu(0);
  }
};

TEST_F(TrainStepGpu, OneGradientThatIsNoNumberSkipsOneStepWithTheScriptsQuirksToo) {
  for (const bool graphs : {false, true}) {
    SCOPED_TRACE(graphs);
    auto settings = test::tiny_settings(test::tiny_switches());
    settings.runtime.record_quirks = true;
    settings.runtime.graphs = graphs;
    Communicator alone;
    test::TrainingRank rank(settings, alone, at::kCUDA);
    // By the third step everything is replayed.
    test::expect_one_step_skipped(rank, /*steps_before=*/3);
  }
}

}  // namespace
}  // namespace tg
