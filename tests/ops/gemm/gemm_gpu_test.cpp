// Tests cublasLt's GEMMs against fp64 and LibTorch's calls, and that an algorithm is chosen once
// and can be captured. Skipped without a GPU; the FP8 tests without FP8 tensor cores.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "device/gpu_graphs.h"
#include "ops/gemm/algorithm_choice.h"
#include "ops/gemm/fp8.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/linear.h"
#include "ops/gemm/lt_gemm.h"
#include "tests/ops/on_fp8_gpu.h"
#include "tests/ops/worst_row.h"

namespace tg {
namespace {

struct Shape {
  std::int64_t m, n, k;

  std::string text() const { return fmt::format("{}x{}x{}", m, n, k); }
};

at::Tensor matrix(std::int64_t rows, std::int64_t columns, at::ScalarType dtype) {
  return at::randn({rows, columns}, at::TensorOptions(test::kGpu).dtype(at::kFloat)).to(dtype);
}
at::Tensor exact(const at::Tensor& a, const at::Tensor& b) {
  return at::matmul(a.to(at::kDouble), b.to(at::kDouble));
}
std::int64_t allocations() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocation[0].allocated;
}

class GemmGpu : public test::OnGpu<> {
 protected:
  void SetUp() override {
    test::OnGpu<>::SetUp();
    if (IsSkipped()) return;
    at::manual_seed(1);
    stream_.emplace(c10::cuda::getStreamFromPool());  // the default stream cannot be captured
  }
  const at::NoGradGuard no_grad_;
  std::optional<c10::cuda::CUDAStreamGuard> stream_;
};

TEST_F(GemmGpu, IsTheProductAndLibTorchsBits) {
  // Sizes for which algorithms are timed, then sizes for which they are not or cannot be.
  for (const Shape& s : {Shape{98304, 512, 512},
                         {98304, 512, 1536},
                         {65536, 768, 2304},
                         {40000, 520, 1000},
                         {65536, 513, 257},
                         {300, 96, 80},
                         {1, 768, 512}}) {
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(fmt::format("{} {}", s.text(), c10::toString(dtype)));
      const auto a = matrix(s.m, s.k, dtype), b = matrix(s.k, s.n, dtype);
      const auto transposed = b.t().contiguous();
      const double rounding = dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
      const auto right = exact(a, b);
      for (const auto& stored : {b, transposed.t()}) {
        const auto found = gemm(a, stored);
        EXPECT_LE(test::worst_row(found, right), rounding);
        EXPECT_TRUE(at::equal(found, at::matmul(a, stored)));
      }
    }
  }
}

// Choosing by time assumes that an algorithm whose result equals the first algorithm's bit for bit
// on the trial operands does so on all operands.
TEST_F(GemmGpu, AlgorithmsThatPassTheTrialHaveTheFirstsBitsOnOtherOperands) {
  constexpr int kCandidates = 8, kOthers = 12;
  const auto workspace =
      at::empty({kGemmWorkspaceBytes}, at::TensorOptions(test::kGpu).dtype(at::kByte));
  for (const Shape& s : {Shape{98304, 512, 512},
                         {98304, 512, 1024},
                         {98304, 1024, 512},
                         {98304, 512, 1536},
                         {98304, 512, 2048},
                         {98304, 2048, 512},
                         {65536, 768, 768},
                         {65536, 768, 2304},
                         {65536, 2304, 768}}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", s.text(), transposed ? ", B transposed" : ""));
      const GemmProblem problem{.m = s.m,
                                .n = s.n,
                                .k = s.k,
                                .a_dtype = at::kBFloat16,
                                .b_dtype = at::kBFloat16,
                                .out_dtype = at::kBFloat16,
                                .b_transposed = transposed};
      const LtGemm gemm(problem, {}, {});
      auto algorithms = gemm.algorithms(kCandidates, kGemmWorkspaceBytes);
      std::erase_if(algorithms, [](const LtAlgorithm& a) { return a.split_k() > 1; });
      const auto out = at::empty({s.m, s.n}, at::TensorOptions(test::kGpu).dtype(at::kBFloat16));
      std::vector<int> others_differ(algorithms.size());
      std::vector<bool> passes(algorithms.size());
      for (int trial = 0; trial <= kOthers; ++trial) {
        auto a = matrix(s.m, s.k, at::kBFloat16), b = matrix(s.n, s.k, at::kBFloat16);
        if (trial % 3 == 1) a = a.abs(), b = b.abs();  // sums without cancellation
        if (trial % 3 == 2) a = (a.to(at::kFloat).exp() * a).to(at::kBFloat16);
        const GemmTensors tensors{a, transposed ? b.t() : b.t().contiguous(), out};
        at::Tensor expected;
        for (std::size_t i = 0; i < algorithms.size(); ++i) {
          if (!gemm.launch(algorithms[i], tensors, workspace)) continue;
          if (i == 0) expected = out.clone();
          const bool equal = at::equal(out, expected);
          if (trial == 0) passes[i] = equal;
          if (trial > 0 && !equal) ++others_differ[i];
        }
      }
      for (std::size_t i = 0; i < algorithms.size(); ++i) {
        EXPECT_TRUE(!passes[i] || others_differ[i] == 0) << "algorithm " << i;
      }
    }
  }
}

TEST_F(GemmGpu, TakesTheViewsThatCallersPass) {
  const auto bank = at::randn({3, 264, 520}, at::TensorOptions(test::kGpu).dtype(at::kBFloat16));
  const auto x = matrix(65536, 520, at::kBFloat16).view({32, 2048, 520});
  for (int i = 0; i < 3; ++i) {  // bank[1] is aligned to 128 bytes
    const auto found = gemm(x, bank[i].t());
    EXPECT_EQ(found.sizes(), at::IntArrayRef({32, 2048, 264}));
    EXPECT_LE(test::worst_row(found, exact(x, bank[i].t())), 0x1p-8) << i;
  }
  const auto one_row = matrix(1, 520, at::kBFloat16).expand({65536, 520});
  EXPECT_LE(test::worst_row(gemm(one_row, bank[0].t()), exact(one_row, bank[0].t())), 0x1p-8);
  const auto columns = matrix(65536, 1040, at::kBFloat16).narrow(1, 0, 520);
  EXPECT_LE(test::worst_row(gemm(columns, bank[0].t()), exact(columns, bank[0].t())), 0x1p-8);
}

// With zero weights, as at the start of training.
TEST_F(GemmGpu, ChoosesOnceAndIsReplayedWithOtherData) {
  const auto a = matrix(50000, 512, at::kBFloat16);
  const auto b = at::zeros({512, 528}, a.options());
  auto before = allocations();
  gemm(a, b);
  EXPECT_GT(allocations() - before, 10) << "nothing was chosen";
  before = allocations();
  gemm(a, b);
  EXPECT_EQ(allocations() - before, 1) << "chosen again";

  at::Tensor out, unseen;
  const auto other = matrix(512, 536, at::kBFloat16);
  GpuGraphs graph;
  ASSERT_EQ(graph.capture({[&] {
    out = gemm(a, b);
    unseen = gemm(a, other);  // no algorithm is chosen while capturing
  }}),
            "");
  b.normal_();
  a.normal_();
  graph.replay(0);
  EXPECT_TRUE(at::equal(out, at::matmul(a, b)));
  EXPECT_TRUE(at::equal(unseen, gemm(a, other)));
}

TEST_F(GemmGpu, ChoosesNothingForTheLogitsAndTheInputGradientOfAHead) {
  const auto x = matrix(4096, 512, at::kBFloat16), head = matrix(8192, 512, at::kBFloat16);
  const auto before = allocations();
  gemm(gemm(x, head.t()), head);
  EXPECT_LT(allocations() - before, 10);
}

TEST_F(GemmGpu, AccumulatesIntoAMatrixOfABank) {
  for (const Shape& s : {Shape{2304, 768, 65536}, {512, 512, 98304}, {200, 72, 1111}, {5, 3, 7}}) {
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(fmt::format("{} {}", s.text(), c10::toString(dtype)));
      const auto dy = matrix(s.k, s.m, dtype), x = matrix(s.k, s.n, dtype);
      const auto bank = matrix(3 * s.m, s.n, at::kFloat).view({3, s.m, s.n});
      const auto before = bank.clone();
      const auto product = exact(dy.t(), x);
      accumulate_gemm(bank[1], dy.t(), x);
      EXPECT_LE(test::worst_row(bank[1], before[1] + product), 0x1p-11);  // accumulated in fp32
      const auto once = bank[1].clone();
      EXPECT_TRUE(at::equal(bank[0], before[0]) && at::equal(bank[2], before[2]));
      bank.copy_(before);
      accumulate_gemm(bank[1], dy.t(), x);
      EXPECT_TRUE(at::equal(bank[1], once)) << "other bits the second time";
    }
  }
}

// Each stream has its own split-K workspace.
TEST_F(GemmGpu, AccumulatesOnTwoStreamsAtOnce) {
  constexpr std::int64_t kTokens = 98304, kWidth = 512;
  constexpr int kTimes = 20;
  const auto other = c10::cuda::getStreamFromPool();
  const auto dy = matrix(kTokens, kWidth, at::kBFloat16);
  const auto x = matrix(kTokens, kWidth, at::kBFloat16), y = matrix(kTokens, kWidth, at::kBFloat16);
  const auto sums = at::zeros({4, kWidth, kWidth}, dy.options().dtype(at::kFloat));
  for (int i = 0; i < kTimes; ++i) accumulate_gemm(sums[0], dy.t(), x);
  for (int i = 0; i < kTimes; ++i) accumulate_gemm(sums[1], dy.t(), y);
  c10::cuda::device_synchronize();
  for (int i = 0; i < kTimes; ++i) {
    accumulate_gemm(sums[2], dy.t(), x);
    const c10::cuda::CUDAStreamGuard beside(other);
    accumulate_gemm(sums[3], dy.t(), y);
  }
  c10::cuda::device_synchronize();
  EXPECT_TRUE(at::equal(sums.narrow(0, 2, 2), sums.narrow(0, 0, 2)));
}

class Fp8GemmGpu : public GemmGpu {
 protected:
  void SetUp() override {
    GemmGpu::SetUp();
    if (!IsSkipped() && !test::has_fp8_gemms()) GTEST_SKIP() << "no FP8 tensor cores";
  }
  static at::Tensor scale(double value) {
    return at::full({}, value, at::TensorOptions(test::kGpu).dtype(at::kFloat));
  }
};

TEST_F(Fp8GemmGpu, IsTheProductAndLibTorchsBits) {
  const auto scale_a = scale(0.5), scale_b = scale(3);
  for (const Shape& s :
       {Shape{98304, 512, 1536}, {65536, 768, 768}, {40000, 528, 1008}, {1, 48, 80}}) {
    for (const auto a_dtype : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
      const auto a = matrix(s.m, s.k, a_dtype), b = matrix(s.n, s.k, at::kFloat8_e4m3fn);
      const auto right = exact(a, b.t()) * 1.5;
      for (const bool fast : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", s.text(), c10::toString(a_dtype), fast));
        const auto found = fp8_matmul(a, scale_a, b, scale_b, fast);
        EXPECT_LE(test::worst_row(found, right), fast ? 0x1p-6 : 0x1p-8);
        EXPECT_TRUE(at::equal(
            found, at::_scaled_mm(a, b.t(), scale_a, scale_b, {}, {}, at::kBFloat16, fast)));
      }
    }
  }
}

TEST_F(Fp8GemmGpu, AccumulatesIntoAMatrixOfABank) {
  const auto scale_a = scale(0.5), scale_b = scale(3);
  for (const Shape& s :
       {Shape{1024, 512, 98304}, {768, 3072, 65536}, {208, 80, 1120}, {48, 64, 16}}) {
    SCOPED_TRACE(s.text());
    const auto a = matrix(s.m, s.k, at::kFloat8_e4m3fn), b = matrix(s.n, s.k, at::kFloat8_e4m3fn);
    const auto bank = matrix(3 * s.m, s.n, at::kFloat).view({3, s.m, s.n});
    const auto before = bank.clone();
    const auto product = exact(a, b.t()) * 1.5;
    accumulate_fp8_gemm(bank[1], a, scale_a, b, scale_b);
    EXPECT_LE(test::worst_row(bank[1], before[1] + product), 0x1p-9);
    const auto once = bank[1].clone();
    accumulate_fp8_gemm(bank[1], a, scale_a, b, scale_b);
    EXPECT_LE(test::worst_row(bank[1], before[1] + 2 * product), 0x1p-9);
    EXPECT_TRUE(at::equal(bank[0], before[0]) && at::equal(bank[2], before[2]));
    bank.copy_(before);
    accumulate_fp8_gemm(bank[1], a, scale_a, b, scale_b);
    EXPECT_TRUE(at::equal(bank[1], once)) << "other bits the second time";
  }
}

// A graph reads the scales and the workspace that it was captured with.
TEST_F(Fp8GemmGpu, IsReplayedWithOtherDataAndScales) {
  const Shape s{512, 1536, 98304};
  const auto a = matrix(s.m, s.k, at::kFloat8_e4m3fn), b = matrix(s.n, s.k, at::kFloat8_e4m3fn);
  const auto scale_a = scale(0.5), scale_b = scale(3), other_scale = scale(7);
  const auto sum = at::zeros({s.m, s.n}, scale_a.options());
  accumulate_fp8_gemm(sum, a, scale_a, b, scale_b);
  GpuGraphs graph;
  ASSERT_EQ(graph.capture({[&] { accumulate_fp8_gemm(sum, a, scale_a, b, scale_b); }}), "");
  accumulate_fp8_gemm(sum, a, other_scale, b, other_scale);
  sum.zero_();
  a.copy_(matrix(s.m, s.k, at::kFloat8_e4m3fn));
  scale_a.fill_(2);
  graph.replay(0);
  EXPECT_LE(test::worst_row(sum, exact(a, b.t()) * 6), 0x1p-9);
}

}  // namespace
}  // namespace tg
