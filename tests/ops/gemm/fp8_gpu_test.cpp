// Tests on a GPU what quantizes to FP8 and transposes: bytes of the reference. Skipped without FP8
// tensor cores.
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/attention/gates/weighted_heads.h"
#include "ops/attention/gates/xsa.h"
#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "tests/ops/attention/passed_gradients.h"
#include "tests/ops/gemm/fp8.h"
#include "tests/ops/norm/residual_chain.h"
#include "tests/ops/on_fp8_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

using test::bf16_matrix;
using test::OnFp8Gpu;

class Fp8RoundGpu : public OnFp8Gpu<> {};

TEST_F(Fp8RoundGpu, GivesTheReferencesBytesAndMagnitude) {
  for (const std::int64_t count : {16, 4096, 1'000'000}) {
    const auto x = bf16_matrix(1, count, 1, 40).flatten();
    // A power of two, so that dividing by it does not round.
    const auto scaling = test::fp8_weight(bf16_matrix(16, 16, 2), 1.0 / 8).fp8.output_gradient;
    const auto found = to_fp8(x, scaling);
    const auto expected = (x.to(at::kFloat) * 8).clamp(-kFp8Max, kFp8Max).to(at::kFloat8_e4m3fn);
    EXPECT_TRUE(at::equal(found.view(at::kByte), expected.view(at::kByte))) << count;
    EXPECT_EQ(scaling.amax.item<float>(), x.abs().max().item<float>()) << count;
    x[count / 2] = std::numeric_limits<float>::quiet_NaN();
    to_fp8(x, scaling);
    EXPECT_TRUE(std::isnan(scaling.amax.item<float>())) << count;
  }
}

class Fp8BankGpu : public OnFp8Gpu<> {};

TEST_F(Fp8BankGpu, HasTheBytesOfSeparateOperations) {
  for (const auto& [matrices, rows, columns] :
       {std::array{1, 16, 16}, {3, 144, 272}, {2, 384, 128}, {1, 2048, 48}}) {
    SCOPED_TRACE(fmt::format("{}x{}x{}", matrices, rows, columns));
    const auto bank =
        bf16_matrix(matrices * rows, columns, 1, 0.02).view({matrices, rows, columns}).contiguous();
    bank[matrices - 1].mul_(1000);
    bank[0][0][0] = 0;
    const auto found = empty_fp8_weights(bank), without = empty_fp8_weights(bank, false);
    round_weights(bank, found);
    round_weights(bank, without);
    const auto amax = bank.abs().to(at::kFloat).amax({1, 2});
    EXPECT_TRUE(at::equal(found.scale, amax / kFp8Max));
    const auto bytes = [](const at::Tensor& x) { return x.contiguous().view(at::kByte); };
    const auto value = bytes((bank / (amax / kFp8Max).view({-1, 1, 1})).to(at::kFloat8_e4m3fn));
    EXPECT_TRUE(at::equal(bytes(found.value), value));
    EXPECT_TRUE(at::equal(bytes(without.value), value));
    EXPECT_TRUE(at::equal(bytes(found.transposed), value.mT()));
  }
}

TEST_F(Fp8BankGpu, OfAMatrixThatIsNotFiniteIsNot) {
  const auto bank = bf16_matrix(32, 32, 1).view({2, 16, 32}).contiguous();
  bank[1][3][5] = std::numeric_limits<float>::quiet_NaN();
  const auto rounded = empty_fp8_weights(bank);
  round_weights(bank, rounded);
  EXPECT_TRUE(std::isfinite(rounded.scale[0].item<float>()));
  EXPECT_TRUE(std::isnan(rounded.scale[1].item<float>()));
  EXPECT_TRUE(rounded.value[1].to(at::kFloat).isnan().all().item<bool>());
}

class Fp8TransposeGpu : public OnFp8Gpu<> {};

TEST_F(Fp8TransposeGpu, InterleavesRowsAndEndsInZeros) {
  for (const auto& [rows, columns] :
       {std::pair{1, 16}, {16, 16}, {24, 48}, {300, 128}, {1111, 208}, {4096, 768}}) {
    SCOPED_TRACE(fmt::format("{}x{}", rows, columns));
    const auto x = at::randint(0, 256, {rows, columns}, at::kByte).to(test::kGpu);
    const auto found = fp8_transposed(x.view(at::kFloat8_e4m3fn)).view(at::kByte);
    const auto groups = (rows + 15) / 16;
    const auto padded = at::zeros({groups * 16, columns}, x.options());
    padded.narrow(0, 0, rows).copy_(x);
    // The interleaved order 0, 8, 1, 9, ...: [group, half, row, column] with `half` last.
    const auto expected =
        padded.view({groups, 2, 8, columns}).permute({3, 0, 2, 1}).reshape({columns, groups * 16});
    EXPECT_TRUE(at::equal(found, expected));
  }
}

// FP8 copies written by a kernel equal the result of a separate rounding pass, byte for byte.
class Fp8CopiesGpu : public OnFp8Gpu<> {
 protected:
  static Fp8Scaling scaling(double scale, bool cached = true) {
    const auto fp32 = at::TensorOptions(test::kGpu).dtype(at::kFloat);
    return {at::full({}, scale, fp32), at::zeros({}, fp32),
            cached ? std::make_shared<Fp8Scaling::Cached>() : nullptr};
  }
  // Expects `found`, which a kernel has rounded, to be the rounding of x.
  static void expect_rounded(const at::Tensor& found, const Fp8Scaling& by_kernel,
                             const at::Tensor& x) {
    const auto alone = scaling(by_kernel.scale.item<double>(), false);
    const auto expected = to_fp8(x, alone);
    EXPECT_TRUE(at::equal(found.view(at::kByte), expected.view(at::kByte)));
    EXPECT_EQ(by_kernel.amax.item<float>(), alone.amax.item<float>());
  }
  // Expects the cached copy of `key` (x by default) to be the rounding of x.
  static void expect_cached(const Fp8Scaling& by_kernel, const at::Tensor& x,
                            const at::Tensor& key = {}) {
    ASSERT_TRUE(by_kernel.cached->rounded.defined());
    expect_rounded(to_fp8(key.defined() ? key : x, by_kernel), by_kernel, x);
  }
};

TEST_F(Fp8CopiesGpu, OfTheResidualNormsOutputAndItsBranchsGradient) {
  // Two and three packs of a row per warp, one block per row, partial packs.
  for (const std::int64_t width : {16, 512, 528, 768, 1024, 2048}) {
    for (const auto& [mixed, skips, gated, form] :
         {std::tuple{true, true, false, NormedForm::materialized},
          {true, true, true, NormedForm::quantized},
          {true, false, false, NormedForm::deferred_scale},
          {true, false, false, NormedForm::quantized},
          {false, false, false, NormedForm::quantized},
          {false, false, false, NormedForm::materialized}}) {
      SCOPED_TRACE(
          fmt::format("{} {} {} {} {}", width, mixed, skips, gated, static_cast<int>(form)));
      const std::int64_t rows = 1111;
      const auto vector = [&](std::uint64_t seed) {
        return bf16_matrix(1, width, seed)[0].to(at::kFloat);
      };
      const bool scales = form == NormedForm::deferred_scale;
      const auto y_scaling = scaling(1.0 / 16, false), gradient_scaling = scaling(1.0 / 128);
      const auto branch = bf16_matrix(rows, width, 2).set_requires_grad(true);
      test::ResidualChain chain{.x = bf16_matrix(rows, width, 1).set_requires_grad(true),
                                .branch = branch,
                                .skip = skips ? bf16_matrix(rows, width, 4) : at::Tensor(),
                                .skip_weight = skips && !gated ? vector(5) : at::Tensor(),
                                .x0 = bf16_matrix(rows, width, 6),
                                .mix = mixed ? at::stack({vector(7), vector(8)}) : at::Tensor(),
                                .branch_gradient_scaling = gradient_scaling,
                                .skip_blend = {}};
      if (gated) chain.skip_blend = at::stack({vector(5), vector(9)});
      NormOptions norm{.scale = 0.5, .form = form, .rounding = scales ? Fp8Scaling() : y_scaling};
      const auto gradient_of = [&](const ResidualNorm& out) {
        torch::autograd::variable_list upstream{bf16_matrix(rows, width, 9),
                                                bf16_matrix(rows, width, 10)};
        return torch::autograd::grad({out.x, out.y.tensor()}, {branch}, upstream)[0];
      };
      const auto out = residual_norm(chain.terms(), norm);
      EXPECT_EQ(out.y.form(), form);
      const auto gradient = gradient_of(out);
      expect_cached(gradient_scaling, gradient);
      if (scales) continue;
      norm = {.scale = 0.5};
      chain.branch_gradient_scaling = {};
      const auto written = residual_norm(chain.terms(), norm);
      expect_rounded(out.y.rounded(y_scaling), y_scaling, written.y.rows());
      if (form != NormedForm::quantized) continue;
      EXPECT_EQ(out.y.tensor().const_data_ptr(), out.x.const_data_ptr());
      EXPECT_TRUE(at::equal(gradient, gradient_of(written)));
    }
  }
}

TEST_F(Fp8CopiesGpu, OfTheNormsOfLanesAndTheGradientsOfTheirLastTerms) {
  for (const std::int64_t width : {16, 512, 528}) {
    for (const auto& [weighted, lanes, form] : {std::tuple{true, 2, NormedForm::materialized},
                                                {true, 2, NormedForm::quantized},
                                                {false, 2, NormedForm::quantized},
                                                {true, 1, NormedForm::materialized}}) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", width, weighted, lanes, static_cast<int>(form)));
      const std::int64_t rows = 111;
      // FP8 in attention's GEMM only, in the MLP's only, and in both.
      for (const auto& [of_first, of_second] :
           {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
        std::vector<at::Tensor> inputs;
        for (const std::uint64_t seed : {1, 2, 3, 4})
          inputs.push_back(bf16_matrix(rows, width, seed).set_requires_grad(true));
        const std::array gradient_scalings{of_first ? scaling(1.0 / 128) : Fp8Scaling(),
                                           of_second ? scaling(1.0 / 64) : Fp8Scaling()};
        const std::array y_scalings{
            of_first || form == NormedForm::quantized ? scaling(1.0 / 16, false) : Fp8Scaling(),
            of_second || form == NormedForm::quantized ? scaling(1.0 / 32, false) : Fp8Scaling()};
        LaneTerms terms{.lanes = static_cast<std::size_t>(lanes)};
        if (weighted) {
          terms.terms = {{inputs[0]}, {inputs[1]}, {inputs[2]}, {inputs[3]}};
          terms.terms[2].gradient_scaling = gradient_scalings[0];
          terms.weights = bf16_matrix(lanes, 4, 5).to(at::kFloat);
        } else {
          terms.terms = {{inputs[0]}, {inputs[3]}};
        }
        terms.terms.back().gradient_scaling = gradient_scalings[1];
        if (lanes == 2) {
          terms.x0 = bf16_matrix(rows, width, 6);
          terms.mix = bf16_matrix(2, width, 7).to(at::kFloat);
        }
        const auto gradients_of = [&](const NormedLanes& out) {
          torch::autograd::variable_list outputs{out.y[0].tensor()},
              upstream{bf16_matrix(rows, width, 8)};
          if (lanes == 2)
            outputs.push_back(out.y[1].tensor()), upstream.push_back(bf16_matrix(rows, width, 9));
          return torch::autograd::grad(outputs, {inputs[weighted ? 2 : 0], inputs[3]}, upstream);
        };
        const auto out = residual_norm(terms, {NormOptions{.form = form, .rounding = y_scalings[0]},
                                               {.form = form, .rounding = y_scalings[1]}});
        const auto gradients = gradients_of(out);
        if (weighted && of_first) expect_cached(gradient_scalings[0], gradients[0]);
        if (of_second) expect_cached(gradient_scalings[1], gradients[1]);
        for (auto& term : terms.terms) term.gradient_scaling = {};
        const auto written = residual_norm(terms, {});
        for (std::size_t k = 0; k < static_cast<std::size_t>(lanes); ++k) {
          EXPECT_EQ(out.y[k].form(), form);
          if (y_scalings[k].defined())
            expect_rounded(out.y[k].rounded(y_scalings[k]), y_scalings[k], written.y[k].rows());
        }
        const auto right = gradients_of(written);
        for (std::size_t i = 0; i < right.size(); ++i)
          EXPECT_TRUE(at::equal(gradients[i], right[i])) << i;
      }
    }
  }
}

TEST_F(Fp8CopiesGpu, OfAttentionsOutputFromItsLastOperation) {
  for (const auto& [heads, kv_heads, head_dim] : {std::array{8, 4, 64}, {6, 6, 128}, {3, 1, 40}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", heads, kv_heads, head_dim));
    const std::int64_t tokens = 301, width = heads * head_dim;
    const auto of_heads = [&](std::int64_t count, std::uint64_t seed) {
      return bf16_matrix(tokens, count * head_dim, seed).view({1, tokens, count, head_dim});
    };
    const auto y = of_heads(heads, 1), v = of_heads(kv_heads, 2);
    const auto numbers = [&](std::uint64_t seed) {
      return bf16_matrix(tokens, heads, seed).view({1, tokens, heads});
    };
    const HeadGateInputs gate{.x = bf16_matrix(tokens, width, 3).view({1, tokens, width}),
                              .weight = bf16_matrix(heads, 12, 4).to(at::kFloat),
                              .passed = test::taken_gate_x()};
    const auto expect_copy = [](const auto& operation) {
      const auto rounding = scaling(1.0 / 64);
      const auto out = operation(rounding).flatten(2, 3);
      EXPECT_TRUE(at::equal(out, operation(Fp8Scaling()).flatten(2, 3)));
      expect_cached(rounding, out);
    };
    expect_copy([&](const Fp8Scaling& r) { return exclusive_attention(y, v, {}, r); });
    expect_copy([&](const Fp8Scaling& r) { return exclusive_attention(y, v, gate, r); });
    expect_copy([&](const Fp8Scaling& r) { return exclusive_attention(y, {}, gate, r); });
    for (const auto& weights :
         {TokenHeadWeights{.exclusive = numbers(5)}, TokenHeadWeights{.gate = numbers(6)},
          TokenHeadWeights{.exclusive = numbers(5), .gate = numbers(6)}})
      expect_copy([&](const Fp8Scaling& r) { return weighted_heads(y, v, weights, {}, r); });
  }
}

TEST_F(Fp8CopiesGpu, OfTheQkvProjectionsGradient) {
  for (const auto& [heads, kv_heads, dim, residual] :
       {std::tuple{8, 4, 64, false}, {6, 6, 128, true}, {3, 1, 64, true}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", heads, kv_heads, dim));
    const std::int64_t batch = 3, tokens = 333, width = (heads + 2 * kv_heads) * dim;
    const auto heads_of = [&](std::int64_t count, std::uint64_t seed) {
      return bf16_matrix(batch * tokens, count * dim, seed).view({batch, tokens, count, dim});
    };
    const auto qkv =
        bf16_matrix(batch * tokens, width, 1).view({batch, tokens, width}).set_requires_grad(true);
    const auto inverse_rms =
        at::rand({batch, tokens, heads + kv_heads}, qkv.options().dtype(at::kFloat));
    QkvInputs in{.heads = heads, .kv_heads = kv_heads, .value_residual = residual};
    if (residual) {
      in.first_weight = at::rand({}, inverse_rms.options());
      in.first_v = heads_of(kv_heads, 2);
    }
    in.key_offset = dim == 128;
    const auto table = make_rope_table(tokens, {.dims = 16, .interleaved = in.key_offset},
                                       at::kBFloat16, at::Device(test::kGpu));
    const auto gradient_of = [&](const Fp8Scaling& by) {
      const auto out = fused_qk_norm_rope(qkv, inverse_rms, in, table, by);
      torch::autograd::variable_list upstream{heads_of(heads, 3), heads_of(kv_heads, 4),
                                              heads_of(kv_heads, 5)};
      return torch::autograd::grad({out.q, out.k, out.v}, {qkv}, upstream)[0];
    };
    const auto gradient_scaling = scaling(1.0 / 32);
    const auto in_fp8_alone = gradient_of(gradient_scaling);
    expect_cached(gradient_scaling, gradient_of({}), in_fp8_alone);
  }
}

}  // namespace
}  // namespace tg
