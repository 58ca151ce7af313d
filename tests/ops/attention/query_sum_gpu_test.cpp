// Tests that qk_norm_rope's backward kernel reads dQ from attention's fp32 accumulator
// (ops/attention/kernels/query_sum.cuh).
#include <torch/csrc/autograd/autograd.h>

#include "ops/attention/paired_heads.h"
#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "tests/ops/on_hopper.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

// dq [B, T, heads, 128] in the layout of query_sum.cuh.
at::Tensor query_sum(const at::Tensor& dq) {
  const auto padded = (dq.size(1) + 63) / 64 * 64;
  const auto x =
      at::constant_pad_nd(dq.cpu().to(at::kFloat).transpose(1, 2), {0, 0, 0, padded - dq.size(1)});
  // Rows [64-row block, piece, half, row of 8]; channels [column, pair of 16, half of 16, pair, of
  // 2].
  return x.reshape({dq.size(0), dq.size(2), padded / 64, 4, 2, 8, 2, 4, 2, 4, 2})
      .permute({0, 1, 2, 6, 3, 7, 4, 5, 9, 8, 10})
      .reshape({dq.size(0), dq.size(2), padded, 128})
      .to(dq.device());
}

class QuerySumGpu : public test::OnHopper<> {};

TEST_F(QuerySumGpu, IsAGradientOfTheQueries) {
  constexpr std::int64_t kBatch = 2, kTokens = 70, kDim = 64, kHeads = 2, kHeadDim = 128;
  const auto normal = [](at::IntArrayRef sizes, std::uint64_t seed) {
    return test::normal(sizes, seed, at::kBFloat16).to(test::kGpu);
  };
  const auto value = normal({3 * kHeads * kHeadDim, kDim}, 1);
  const auto dq = normal({kBatch, kTokens, kHeads, kHeadDim}, 2), dk = normal(dq.sizes(), 3);
  struct Case {
    bool interleaved, paired;
  };
  for (const auto& [interleaved, paired] : {Case{false, false}, {true, false}, {true, true}}) {
    const RopeOptions options{.dims = 64, .interleaved = interleaved};
    const auto make_table = paired ? make_paired_rope_table : make_rope_table;
    const auto on_cpu = make_table(kTokens, options, at::kBFloat16, at::kCPU);
    const RopeTable table{on_cpu.cos.to(test::kGpu), on_cpu.sin.to(test::kGpu), interleaved};
    const auto gradient = [&](bool as_sum) {
      const auto x = normal({kBatch, kTokens, kDim}, 4).requires_grad_();
      const Weight weight{value, at::zeros_like(value, at::kFloat)};
      const auto passed = std::make_shared<PassedGradients>();
      const auto out = qkv_proj_norm_rope(x, weight,
                                          {.heads = kHeads,
                                           .kv_heads = kHeads,
                                           .key_offset = interleaved,
                                           .contiguous = paired,
                                           .passed = passed},
                                          table);
      EXPECT_TRUE(passed->takes_q);
      if (as_sum) {
        passed->q_sum = query_sum(paired ? paired_heads(dq) : dq);
        out.k.backward(dk);
      } else {
        torch::autograd::backward({out.q, out.k}, {dq, dk});
      }
      return weight.gradient;
    };
    EXPECT_TRUE(at::equal(gradient(true), gradient(false)))
        << "interleaved " << interleaved << ", paired " << paired;
  }
}

}  // namespace
}  // namespace tg
