// On a GPU, in bf16 with own kernels: compares the Hessians with those computed on the CPU in fp32.
// Skipped without a GPU.
#include "eval/hessians.h"
#include "tests/eval/calibration.h"
#include "tests/eval/small_record.h"
#include "tests/model/spec.h"
#include "tests/ops/on_gpu.h"

namespace tg {
namespace {

constexpr int kVocab = 304;
constexpr std::int64_t kRows = 6, kLength = 192;

class HessiansGpu : public test::OnGpu<> {};

// Heads of 64 and, padded, of 50 channels; two lanes and blocks that recur.
std::vector<ModelConfig> models() {
  auto heads_of_50 = test::small_record(kVocab);
  heads_of_50.model_dim = 100;
  auto last_record = test::tiny_last_record();
  last_record.vocab_size = kVocab;
  last_record.model_dim = 256;
  return {test::small_record(kVocab), heads_of_50, last_record};
}

Hessians collect(const ModelConfig& config, const test::Rows& rows, at::ScalarType compute,
                 at::Device device, bool measure_memory) {
  const auto table = test::make_parameters(config, compute, device);
  const auto source = test::random_parameters(config, at::kFloat, 1);
  for (const auto& row : table.rows()) row.value.detach().copy_(source[row.name].detach() * 0.3);
  Gpt model(test::plan_of(config), table,
            {.compute = compute, .padding = choose_padding(PadVocab::automatic, device, compute)});
  auto of_rank = rows.of_rank(0, 1);
  Communicator alone;
  return collect_hessians(
      model, table, of_rank,
      {.batches = 2, .rows_per_batch = kRows / 2, .measure_memory = measure_memory}, alone);
}

TEST_F(HessiansGpu, InBf16AreThoseOfTheCpuInFp32) {
  const test::Rows rows(test::integers({kRows, kLength + 1}, kVocab, 2), kVocab);
  for (const auto& config : models()) {
    const auto expected = collect(config, rows, at::kFloat, at::kCPU, false);
    for (const bool measure_memory : {false, true}) {
      const auto found = collect(config, rows, at::kBFloat16, at::kCUDA, measure_memory);
      ASSERT_EQ(found.size(), expected.size());
      for (const auto& [matrix, hessian] : found) {
        EXPECT_EQ(hessian.scalar_type(), at::kFloat);
        const auto& of_cpu = expected.at(matrix);
        // The operands are bf16, each with an error of about 2^-8 relative and the earlier
        // roundings.
        EXPECT_TRUE(test::is_close(hessian, of_cpu, 0, 0.03 * of_cpu.abs().max().item<double>()))
            << matrix << " of a model of " << config.model_dim;
      }
    }
  }
}

}  // namespace
}  // namespace tg
