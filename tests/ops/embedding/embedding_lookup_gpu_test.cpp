// Tests the kernels of ops/embedding/embedding_lookup.h against sums in fp64 on the CPU.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/embedding/embedding_lookup.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class EmbeddingLookupGpu : public test::OnGpu<::testing::TestWithParam<at::ScalarType>> {
 protected:
  double rounding() const {
    return GetParam() == at::kFloat ? 0x1p-23 : GetParam() == at::kHalf ? 0x1p-11 : 0x1p-8;
  }
};

// Zipf-distributed ids: the frequency of id k is about 1/k.
at::Tensor zipf(std::int64_t count, std::int64_t vocab) {
  const auto uniform = at::rand({count}, test::generator(1), at::kDouble);
  return (uniform * std::log(vocab + 1.0)).exp().sub_(1).to(at::kLong).clamp_(0, vocab - 1);
}

at::Tensor exact_gradient(const at::Tensor& dy, const at::Tensor& ids, std::int64_t vocab) {
  return at::zeros({vocab, dy.size(-1)}, at::kDouble)
      .index_add_(0, ids.flatten(), dy.flatten(0, -2).to(at::kDouble));
}

TEST_P(EmbeddingLookupGpu, GradientSumsTheRowsOfAnId) {
  constexpr std::int64_t kWithoutKernel = 7;
  const struct {
    at::Tensor ids;
    std::int64_t vocab, width;
  } cases[] = {
      // The record's table: each id's run spans many chunks.
      {.ids = zipf(20000, 1024), .vocab = 1024, .width = 512},
      // The record's bigram table: the last chunk is partial.
      {.ids = zipf(9001, 10240), .vocab = 10240, .width = 128},
      // The speedrun's table: few ids occur twice.
      {.ids = test::integers({5000}, 50304, 2), .vocab = 50304, .width = 768},
      // A single id.
      {.ids = at::full({1000}, 3, at::kLong), .vocab = 5, .width = 16},
      // Chunks end inside each run of an id.
      {.ids = at::arange(130, at::kLong).div_(65, "floor"), .vocab = 2, .width = 8},
      // Chunks end where runs end.
      {.ids = at::arange(128, at::kLong).div_(64, "floor"), .vocab = 2, .width = 8},
      // One token, the largest width.
      {.ids = at::zeros({1}, at::kLong), .vocab = 1, .width = 2048},
      // Two-dimensional ids.
      {.ids = test::integers({3, 7}, 9, 3), .vocab = 9, .width = 24},
      // Rows whose size is not a multiple of 16 bytes: the reference runs.
      {.ids = test::integers({100}, 9, 4), .vocab = 9, .width = kWithoutKernel},
  };
  for (const auto& [ids, vocab, width] : cases) {
    auto shape = ids.sizes().vec();
    shape.push_back(width);
    const auto dy = test::normal(shape, 5, GetParam());
    const auto exact = exact_gradient(dy, ids, vocab);
    const auto found = embedding_gradient(dy.cuda(), ids.cuda(), vocab);
    EXPECT_EQ(found.scalar_type(), at::kFloat);
    // One rounding of a sum of up to 20,000 fp32 terms of size one, in chunks of 64.
    const bool reference = width == kWithoutKernel;
    EXPECT_TRUE(test::is_close(found.cpu(), exact, reference ? 4 * rounding() : rounding(),
                               reference ? 0.5 : 1e-3))
        << ids.numel() << " ids of " << vocab << ", width " << width;
    // Accumulation into an existing gradient: the sum is added once, and rows beyond the table stay
    // unchanged.
    const auto before = test::normal({vocab + 1, width}, 6, at::kFloat).cuda(),
               sum = before.clone();
    accumulate_embedding_gradient(sum, dy.cuda(), ids.cuda());
    EXPECT_TRUE(at::equal(sum.slice(0, 0, vocab), before.slice(0, 0, vocab) + found));
    EXPECT_TRUE(at::equal(sum[vocab], before[vocab]));
  }
}

TEST_P(EmbeddingLookupGpu, LooksUpAndDifferentiates) {
  const auto table = test::normal({1024, 128}, 6, GetParam());
  const auto ids = test::integers({4, 300}, 1024, 7);
  const auto dy = test::normal({4, 300, 128}, 8, GetParam());
  const auto leaf = table.cuda().set_requires_grad(true);
  const auto y = embedding_lookup(leaf, ids.cuda());
  EXPECT_TRUE(test::is_same(y.detach().cpu(), at::embedding(table, ids)));
  const auto gradient = torch::autograd::grad({y}, {leaf}, {dy.cuda()})[0];
  EXPECT_TRUE(test::is_close(gradient.cpu(), exact_gradient(dy, ids, 1024), rounding(), 1e-5));
}

TEST_P(EmbeddingLookupGpu, TablesOfTheSameIdsShareOneOrderAndKeepTheirBits) {
  const auto ids = zipf(3000, 1024).cuda();
  const auto order = std::make_shared<IdOrder>();
  for (const std::int64_t width : {64, 128}) {
    const auto table = test::normal({1024, width}, 6, GetParam()).cuda().set_requires_grad(true);
    const auto dy = test::normal({3000, width}, 8, GetParam()).cuda();
    const auto y = embedding_lookup(table, ids, /*gradient=*/{}, order);
    const auto gradient = torch::autograd::grad({y}, {table}, {dy})[0];
    EXPECT_TRUE(at::equal(gradient, embedding_gradient(dy, ids, 1024).to(GetParam())));
  }
}

TEST_P(EmbeddingLookupGpu, GivesTheSameBitsAgainAndInAGraph) {
  const auto ids = zipf(30000, 1024).cuda();
  const auto dy = test::normal({30000, 512}, 9, GetParam()).cuda();
  const auto once = embedding_gradient(dy, ids, 1024);
  EXPECT_TRUE(at::equal(once, embedding_gradient(dy, ids, 1024)));

  at::Tensor replayed;
  at::cuda::CUDAGraph graph;
  at::cuda::device_synchronize();
  {
    const c10::cuda::CUDAStreamGuard guard(at::cuda::getStreamFromPool());
    graph.capture_begin();
    replayed = embedding_gradient(dy, ids, 1024);
    graph.capture_end();
  }
  graph.replay();
  at::cuda::device_synchronize();
  EXPECT_TRUE(at::equal(once, replayed));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EmbeddingLookupGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param));
                         });

}  // namespace
}  // namespace tg
