// On a GPU, in bf16 with own kernels: a padded batch of continuations has the log-probabilities
// that validation's forward pass gives each row by itself. Skipped without a GPU.
#include "tests/eval/continuations.h"
#include "tests/eval/small_record.h"
#include "tests/model/spec.h"
#include "tests/ops/on_gpu.h"

namespace tg {
namespace {

constexpr int kVocab = 304;  // 300 of them are pieces

class ContinuationsGpu : public test::OnGpu<> {};

TEST_F(ContinuationsGpu, HaveTheLogProbabilityThatEachHasAlone) {
  const auto config = test::small_record(kVocab);
  const auto table = test::make_parameters(config, at::kBFloat16, at::kCUDA);
  Gpt model(test::plan_of(config), table, {.compute = at::kBFloat16});
  const auto source = test::random_parameters(config, at::kFloat, 1);
  for (const auto& row : table.rows()) row.value.detach().copy_(source[row.name].detach() * 0.3);
  model.cast_weights();
  const auto rows = test::random_continuations(150, 200, kVocab, 1);
  const auto scores = test::scores_of(model, rows, 256, 300, at::kCUDA);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto count = rows[i].scored;
    if (count == 0) continue;
    const auto losses = test::losses_alone(model, rows[i].ids, 256, at::kCUDA);
    const auto sum = losses.narrow(0, losses.size(0) - count, count).sum();
    // bf16: an nll of about 6 changes by about 2^-8 relative if GEMMs sum in another order.
    EXPECT_NEAR(scores[i].log_probability, -test::values_of(sum.unsqueeze(0))[0],
                0.03 * static_cast<double>(count) + 0.03)
        << i;
  }
}

}  // namespace
}  // namespace tg
