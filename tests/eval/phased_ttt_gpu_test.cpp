// Tests phased test-time training on a GPU, where each batch in flight has its own stream. Skipped
// without a GPU.
#include "ops/attention/attention.h"
#include "tests/eval/deterministic_on_gpu.h"
#include "tests/eval/phased_ttt.h"
#include "tests/files/testing.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

using test::documents_of, test::kManyLengths, test::options_of;

// With heads of 64 for the Hopper kernels.
ModelConfig wide_heads() {
  auto c = test::two_layers();
  c.model_dim = 128;
  c.rope_dims = 16;
  return c;
}

struct Model {
  Model(const ModelConfig& config, at::ScalarType compute, at::Device device)
      : table(test::make_parameters(config, compute, device)),
        gpt(test::plan_of(config), table, {.compute = compute, .bos_id = test::kBos}) {
    const auto source = test::random_parameters(config, at::kFloat, 1);
    for (const auto& row : table.rows()) row.value.detach().copy_(source[row.name].detach());
    gpt.cast_weights();
  }
  ParameterTable table;
  Gpt gpt;
};

// SGD, whose updates are as exact as their gradients.
PhasedTttOptions in_flight(std::int64_t batches) {
  auto options = options_of();
  options.config.ttt_concurrent_batches = batches;
  options.config.ttt_optimizer = TttOptimizer::sgd;
  options.config.ttt_lora_lr = 0.2;
  return options;
}

test::TttRun run_on(at::Device device, at::ScalarType compute, const ModelConfig& config,
                    const PhasedTttOptions& options) {
  Communicator alone;
  Model model(config, compute, device);
  return test::run_ttt(documents_of(kManyLengths), options, alone, model.gpt, model.table, device);
}

class PhasedTttGpu : public test::DeterministicOnGpu {
 protected:
  void SetUp() override {
    DeterministicOnGpu::SetUp();
    if (IsSkipped()) return;
    use_attention(AttentionKernel::math);
  }
};

TEST_F(PhasedTttGpu, ScoresAsOnACpuWithBatchesInFlight) {
  for (const int batches : {1, 2, 3}) {
    const auto options = in_flight(batches);
    const auto expected = run_on(at::kCPU, at::kFloat, test::two_layers(), options);
    const auto run = run_on(at::kCUDA, at::kFloat, test::two_layers(), options);
    for (std::size_t t = 0; t < expected.losses.size(); ++t)
      EXPECT_NEAR(run.losses[t], expected.losses[t], 1e-3) << batches << ", " << t;
    EXPECT_NEAR(run.score.loss, expected.score.loss, 1e-4) << batches;
  }
}

// Part of its state is on the host.
TEST_F(PhasedTttGpu, GoesOnWhereItWasToldToStop) {
  const test::TempDir folder;
  const auto path = folder / "state.safetensors";
  for (const int batches : {1, 2}) {
    const auto options = in_flight(batches);
    const auto expected = run_on(at::kCUDA, at::kFloat, test::two_layers(), options);
    test::error_of(ExitCode::stopped, [&] {
      run_on(at::kCUDA, at::kFloat, test::two_layers(), test::stopping(options, path, 20));
    });
    const auto run =
        run_on(at::kCUDA, at::kFloat, test::two_layers(), test::going_on(options, path));
    EXPECT_NEAR(run.score.loss, expected.score.loss, 1e-6) << batches;
  }
}

// Data read before another stream has written it would differ between runs.
TEST_F(PhasedTttGpu, ScoresToTheSameBitsWhereverBatchesInFlightMeet) {
  use_attention(AttentionKernel::flash);
  auto options = in_flight(4);
  const auto expected = run_on(at::kCUDA, at::kBFloat16, wide_heads(), options);
  EXPECT_LT(expected.score.loss, 10);
  for (int times = 0; times < 10; ++times)
    EXPECT_EQ(run_on(at::kCUDA, at::kBFloat16, wide_heads(), options).losses, expected.losses);
}

}  // namespace
}  // namespace tg
