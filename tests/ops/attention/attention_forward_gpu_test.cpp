// Tests the kernel of attention_forward_hopper.h against the formula in fp64 on the CPU.
#include "ops/attention/attention_workspace.h"
#include "ops/attention/kernels/attention_forward_hopper.h"
#include "tests/ops/attention/attention_inputs.h"
#include "tests/ops/on_hopper.h"

namespace tg {
namespace {

using test::AttentionCase;
using test::AttentionInputs;
using test::relative_error;

class AttentionForwardGpu : public test::OnHopper<::testing::TestWithParam<AttentionCase>> {};

// The kernel rounds the probabilities and the output.
TEST_P(AttentionForwardGpu, IsTheFormula) {
  const auto& c = GetParam();
  const AttentionInputs inputs(c);
  const at::NoGradGuard no_grad;
  const auto exact = inputs.by_formula(inputs.parts(inputs.qkv.to(at::kDouble)));
  const auto heads = inputs.parts(inputs.qkv.to(test::kGpu));
  const auto &q = heads[0], &k = heads[1], &v = heads[2];
  // The kernel must write all of its outputs.
  auto y = at::full(q.sizes(), NAN, q.options()),
       logsumexp = at::full({c.batch, c.heads, c.tokens}, NAN, q.options().dtype(at::kFloat)),
       next_tile = at::full({}, 9, q.options().dtype(at::kInt));
  // A window of the whole row hides nothing.
  const auto from = visible_from(k, inputs.documents(test::kGpu),
                                 c.window == 0 && c.document == 0 ? c.tokens : c.window);
  cuda::attention_forward(attention_shape(q, k, 1 / std::sqrt(static_cast<double>(c.head_dim))),
                          {.q = head_vectors(q),
                           .k = head_vectors(k),
                           .v = head_vectors(v),
                           .visible_from = from.const_data_ptr<int>()},
                          {.y = y.mutable_data_ptr(),
                           .logsumexp = logsumexp.mutable_data_ptr<float>(),
                           .next_tile = next_tile.mutable_data_ptr<int>()},
                          dtype_of(q), current_stream(q));
  EXPECT_LT(relative_error(y, exact.out), c.dtype == at::kHalf ? 1e-3 : 6e-3);
  EXPECT_LT(relative_error(logsumexp, exact.logsumexp), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionForwardGpu,
                         ::testing::ValuesIn(test::small_attention_cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });
INSTANTIATE_TEST_SUITE_P(Recipes, AttentionForwardGpu,
                         ::testing::Values(AttentionCase{"speedrun_2048x896", 2, 2048, 6, 6, 128,
                                                         at::kBFloat16, false, 300},
                                           AttentionCase{"record_2048x896", 2, 2048, 8, 4, 64,
                                                         at::kBFloat16, false, 700, 384}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
