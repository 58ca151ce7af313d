// ops/attention/qkv_proj_norm_rope.h on a GPU against fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/attention/qkv_proj_norm_rope.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Case {
  const char* name;
  std::int64_t batch, tokens, dim, heads, kv_heads, head_dim, rope_dims;
  bool supported = true;  // by the kernels of Hopper GPUs
  bool embedded = false;
  std::int64_t lambdas = 0;  // of a value residual
  bool has_gain = true;
};

class QkvProjNormRopeGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  static constexpr at::ScalarType kDtype = at::kBFloat16;

  static std::int64_t width(const Case& c) { return (c.heads + 2 * c.kv_heads) * c.head_dim; }

  // x, weight, q_gain, embedding, λ and first_v; undefined what the case leaves out.
  static std::vector<at::Tensor> inputs_of(const Case& c) {
    const auto values = c.kv_heads * c.head_dim;
    std::vector<at::Tensor> inputs(6);
    inputs[0] = test::normal({c.batch, c.tokens, c.dim}, 1, kDtype);
    inputs[1] =
        (test::normal({width(c), c.dim}, 2) / std::sqrt(static_cast<double>(c.dim))).to(kDtype);
    if (c.has_gain) {
      inputs[2] = test::normal({c.heads}, 3, at::kFloat);
      inputs[2][0] = 0;
    }
    if (c.embedded) inputs[3] = test::normal({c.batch, c.tokens, values}, 4, kDtype);
    if (c.lambdas > 0) {
      inputs[4] = test::normal({c.lambdas}, 5, at::kFloat);
      inputs[5] = test::normal({c.batch, c.tokens, c.kv_heads, c.head_dim}, 6, kDtype);
    }
    return inputs;
  }

  static RopeTable table_of(const Case& c, at::Device device, at::ScalarType dtype) {
    const auto table = make_rope_table(c.tokens, {.dims = c.rope_dims}, kDtype, at::kCPU);
    return {table.cos.to(device, dtype), table.sin.to(device, dtype)};
  }
  static Qkv call(const Case& c, const std::vector<at::Tensor>& in, const Weight& weight,
                  const RopeTable& table) {
    return qkv_proj_norm_rope(in[0], weight,
                              {.heads = c.heads,
                               .kv_heads = c.kv_heads,
                               .q_gain = in[2],
                               .value_embedding = in[3],
                               .value_lambda = in[4],
                               .first_v = in[5]},
                              table);
  }

  // q, k, v, then the gradients of the inputs.
  static std::vector<at::Tensor> run(const Case& c, bool exact) {
    const at::Device device = exact ? at::kCPU : at::kCUDA;
    auto in = inputs_of(c);
    for (auto& x : in) {
      if (!x.defined()) continue;
      x = x.to(device, exact ? at::kDouble : x.scalar_type()).detach().set_requires_grad(true);
    }
    // In fp64 autograd computes the weight's gradient, on the GPU the GEMM accumulates it.
    Weight weight{in[1], {}};
    if (!exact) weight = {in[1].detach(), at::zeros_like(in[1], at::kFloat).detach()};
    const auto out = call(c, in, weight, table_of(c, device, exact ? at::kDouble : kDtype));
    const auto upstream = [&](std::int64_t heads, std::uint64_t seed) {
      return test::normal({c.batch, c.tokens, heads, c.head_dim}, seed, kDtype)
          .to(device, out.q.scalar_type());
    };
    torch::autograd::backward({out.q, out.k, out.v, out.exclusive_v},
                              {upstream(c.heads, 7), upstream(c.kv_heads, 8),
                               upstream(c.kv_heads, 9), upstream(c.kv_heads, 10)});
    std::vector<at::Tensor> found{out.q.detach(), out.k.detach(), out.v.detach()};
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].defined()) found.push_back(i == 1 && !exact ? weight.gradient : in[i].grad());
    }
    return found;
  }
};

class QkvProjNormRopeEdgesGpu : public test::OnGpu<> {};

// The norm of the row with the largest error, relative to the root mean square norm of all rows.
double worst_row(const at::Tensor& found, const at::Tensor& exact) {
  const auto width = exact.dim() < 2 ? exact.numel() : exact.size(-1);
  const auto right = exact.reshape({-1, width});
  const auto off = (found.cpu().to(at::kDouble).reshape({-1, width}) - right).norm(2, 1);
  const auto size = right.norm(2, 1).square().mean().sqrt();
  return (off.max() / size).item<double>();
}

TEST_P(QkvProjNormRopeGpu, MatchesTheReferenceInFp64) {
  const auto c = GetParam();
  const auto found = run(c, false), right = run(c, true);
  ASSERT_EQ(found.size(), right.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    // A few roundings to bf16, of 2^-8 at most, before each element.
    EXPECT_LE(worst_row(found[i], right[i]), 4.0 / 256) << "tensor " << i;
  const bool fused = c.supported && use_hopper_kernels(found[0]);
  EXPECT_EQ(found[0].stride(1) == width(c), fused) << "not the path that was meant";
  if (!fused) return;
  // The epilogue rounds its output once.
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(test::is_close(found[i], right[i], 1.01 / 256, 1e-4)) << "tensor " << i;
}

TEST_P(QkvProjNormRopeGpu, GivesTheSameBitsAgainAndWithoutGradients) {
  const auto c = GetParam();
  const auto first = run(c, false), second = run(c, false);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(at::equal(first[i], second[i])) << "tensor " << i;

  const at::NoGradGuard no_grad;
  auto in = inputs_of(c);
  for (auto& x : in)
    if (x.defined()) x = x.to(at::kCUDA);
  const auto out = call(c, in, {in[1], {}}, table_of(c, at::kCUDA, kDtype));
  EXPECT_TRUE(at::equal(out.q, first[0]));
  EXPECT_TRUE(at::equal(out.k, first[1]));
  EXPECT_TRUE(at::equal(out.v, first[2]));
}

TEST_F(QkvProjNormRopeEdgesGpu, OnlyWhatTheLossUsesHasAGradient) {
  const Case c{"k_alone", 1, 70, 128, 4, 2, 64, 16};
  const auto x = test::normal({1, c.dim, c.tokens}, 1, at::kBFloat16)
                     .to(at::kCUDA)
                     .transpose(1, 2)  // not contiguous
                     .requires_grad_();
  const auto value = test::normal({8 * 64, c.dim}, 2, at::kBFloat16).to(at::kCUDA);
  const Weight weight{value, at::zeros_like(value, at::kFloat)};
  const auto table = make_rope_table(c.tokens, {.dims = 16}, at::kBFloat16, at::kCUDA);
  for (int micro_step = 1; micro_step <= 2; ++micro_step) {
    const auto out = qkv_proj_norm_rope(x, weight, {.heads = 4, .kv_heads = 2}, table);
    out.k.backward(at::ones_like(out.k));
    const auto of_heads = weight.gradient.view({8, 64, c.dim});
    EXPECT_EQ(of_heads.narrow(0, 0, 4).count_nonzero().item<std::int64_t>(), 0);
    EXPECT_GT(of_heads.narrow(0, 4, 2).count_nonzero().item<std::int64_t>(), 0);
    EXPECT_EQ(of_heads.narrow(0, 6, 2).count_nonzero().item<std::int64_t>(), 0);
  }
  EXPECT_TRUE(x.grad().defined());
}

// A diverged run must not look sound.
TEST_F(QkvProjNormRopeEdgesGpu, AGainOfNanGivesNans) {
  const auto x = test::normal({1, 5, 64}, 1, at::kBFloat16).to(at::kCUDA);
  const auto value = test::normal({4 * 64, 64}, 2, at::kBFloat16).to(at::kCUDA);
  const auto gain = at::full({2}, std::nan(""), at::TensorOptions(at::kCUDA).dtype(at::kFloat));
  const auto table = make_rope_table(5, {.dims = 16}, at::kBFloat16, at::kCUDA);
  const at::NoGradGuard no_grad;
  const auto out =
      qkv_proj_norm_rope(x, {value, {}}, {.heads = 2, .kv_heads = 1, .q_gain = gain}, table);
  EXPECT_TRUE(out.q.isnan().all().item<bool>());
  EXPECT_FALSE(out.k.isnan().any().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, QkvProjNormRopeGpu,
    ::testing::Values(Case{"record", 2, 2048, 512, 8, 4, 64, 16},
                      Case{"record_with_embedding", 1, 2048, 512, 8, 4, 64, 16, true, true},
                      Case{"speedrun", 2, 1024, 768, 6, 6, 128, 128, true, false, 1},
                      Case{"one_token", 1, 1, 64, 2, 1, 64, 32},
                      Case{"partial_tiles", 3, 333, 200, 3, 1, 64, 32, true, true, 2},
                      Case{"many_tiles", 1, 9001, 72, 5, 5, 64, 64, true, false, 2},
                      Case{"many_tiles_of_128", 1, 9001, 72, 6, 6, 128, 128, true, false, 0, false},
                      Case{"heads_of_128_rotated_in_part", 2, 65, 256, 2, 1, 128, 64},
                      Case{"heads_of_128_rotated_a_little", 3, 333, 200, 3, 1, 128, 16, true, true,
                           2},
                      Case{"heads_of_32", 2, 65, 256, 4, 2, 32, 32, false},
                      Case{"rotated_half_of_4_bytes", 2, 65, 256, 4, 2, 64, 4, false},
                      Case{"rows_of_200_bytes", 2, 65, 100, 4, 2, 64, 16, false}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
