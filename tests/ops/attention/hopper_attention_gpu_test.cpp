// Tests hopper_attention() against FlashAttention, which other tests compare with the formula.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <optional>

#include "ops/attention/fused_attention.h"
#include "tests/ops/on_hopper.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct DocumentsCase {
  const char* name;
  std::int64_t rows, heads, kv_heads, head_dim, window;
  std::vector<int> lengths;  // of the documents in all rows
  at::ScalarType dtype = at::kBFloat16;
};

std::vector<int> offsets_of(const std::vector<int>& lengths) {
  std::vector<int> offsets{0};
  for (const int length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

class AttentionOfDocumentsGpu : public test::OnHopper<::testing::TestWithParam<DocumentsCase>> {
 protected:
  void SetUp() override {
    OnHopper::SetUp();
    if (IsSkipped()) return;
    const auto& c = GetParam();
    const std::int64_t tokens = offsets_of(c.lengths).back();
    // q, k and v are views of one projection's output.
    const auto qkv =
        test::normal({c.rows, tokens / c.rows, c.heads + 2 * c.kv_heads, c.head_dim}, 1, c.dtype)
            .to(test::kGpu);
    q = qkv.narrow(2, 0, c.heads);
    k = qkv.narrow(2, c.heads, c.kv_heads);
    v = qkv.narrow(2, c.heads + c.kv_heads, c.kv_heads);
    documents =
        documents_at(at::tensor(offsets_of(c.lengths), at::kInt).to(test::kGpu), c.rows,
                     tokens / c.rows, *std::max_element(c.lengths.begin(), c.lengths.end()));
  }

  AttentionForward run() const {
    return hopper_attention(q, k, v, kScale, documents, GetParam().window);
  }
  // Compares with FlashAttention, with the documents as they are now.
  void expect_those_of_flash(const AttentionForward& found) const {
    const auto now = documents_at(documents.offsets, q.size(0), q.size(1), documents.longest);
    const auto [y, logsumexp] = flash_attention(q, k, v, kScale, now, GetParam().window);
    EXPECT_TRUE(test::is_close(found.y, y, 0.02, 0.01));
    EXPECT_TRUE(test::is_close(found.logsumexp, logsumexp, 1e-4, 1e-4));
  }

  static constexpr double kScale = 0.125;
  at::Tensor q, k, v;
  Documents documents;
};

TEST_P(AttentionOfDocumentsGpu, IsFlashAttentionsOfEachDocument) {
  expect_those_of_flash(run());
}

TEST_P(AttentionOfDocumentsGpu, ReplaysForOtherDocuments) {
  std::optional<AttentionForward> captured;
  at::cuda::CUDAGraph graph;
  at::cuda::device_synchronize();
  {
    const c10::cuda::CUDAStreamGuard guard(at::cuda::getStreamFromPool());
    graph.capture_begin();
    // As a pass makes them: what an earlier pass derived from these offsets is not in the graph.
    documents = documents_at(documents.offsets, q.size(0), q.size(1), documents.longest);
    captured = run();
    graph.capture_end();
  }
  // Reverses the document lengths.
  auto lengths = GetParam().lengths;
  const auto per_row = static_cast<std::ptrdiff_t>(lengths.size()) / GetParam().rows;
  for (auto row = lengths.begin(); row != lengths.end(); row += per_row)
    std::reverse(row, row + per_row);
  documents.offsets.copy_(at::tensor(offsets_of(lengths), at::kInt));
  graph.replay();
  at::cuda::device_synchronize();
  expect_those_of_flash(*captured);
}

TEST_P(AttentionOfDocumentsGpu, HasEqualBitsOnTwoStreamsAtOnce) {
  const auto expected = run().y;
  at::cuda::device_synchronize();
  const auto other = at::cuda::getStreamFromPool();
  std::vector<at::Tensor> found;
  for (int times = 0; times < 20; ++times) {
    found.push_back(run().y);
    const c10::cuda::CUDAStreamGuard beside(other);
    found.push_back(run().y);
  }
  at::cuda::device_synchronize();
  for (const auto& y : found) EXPECT_TRUE(at::equal(y, expected));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionOfDocumentsGpu,
    ::testing::Values(
        DocumentsCase{"OneRow", 1, 8, 4, 64, 0, {1, 63, 64, 65, 0, 2048, 0, 319}},
        DocumentsCase{"OneRowOfWideHeads", 1, 6, 6, 128, 0, {1, 63, 64, 65, 0, 2048, 0, 319}},
        DocumentsCase{"Rows", 2, 4, 2, 64, 0, {500, 0, 12, 100, 400, 12}},
        DocumentsCase{"Window", 1, 4, 4, 64, 100, {1, 63, 64, 65, 0, 2048, 0, 319}},
        DocumentsCase{"LongRow", 1, 6, 6, 128, 640, std::vector<int>(180, 364)},
        DocumentsCase{"Fp16", 1, 4, 1, 64, 0, {1, 63, 64, 65, 0, 1024, 0, 319}, at::kHalf}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
