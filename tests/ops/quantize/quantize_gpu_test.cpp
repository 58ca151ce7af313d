// Expects the quantizers to give the same bits on a GPU as on the CPU. Skipped without a GPU.
#include "ops/quantize/quantize.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class QuantizeGpu : public test::OnGpu<> {};

void expect_same(const QuantizedWeight& found, const QuantizedWeight& expected) {
  EXPECT_TRUE(found.q.is_cuda() && found.scale.is_cuda());
  EXPECT_TRUE(test::is_same(found.q.cpu(), expected.q));
  EXPECT_TRUE(test::is_same(found.scale.cpu(), expected.scale));
  EXPECT_TRUE(test::is_same(dequantize(found).cpu(), dequantize(expected)));
}

// The choice would differ only if the errors of two percentiles agreed to the last bits.
TEST_F(QuantizeGpu, GivesTheBitsOfTheCpu) {
  uint64_t seed = 0;
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {64, 65}, {513, 777}, {512, 1536}, {1536, 512}, {7, 3001}}) {
    for (double size : {0.02, 0.3, 3.0}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", size " << size);
      auto w = test::normal({rows, columns}, ++seed, at::kFloat) * size;
      w[0].zero_();
      expect_same(quantize_int6(w.to(test::kGpu)), quantize_int6(w));
      expect_same(quantize_int8(w.to(test::kGpu)), quantize_int8(w));
      expect_same(quantize_int8(w.flatten().to(test::kGpu)), quantize_int8(w.flatten()));
    }
  }
}

}  // namespace
}  // namespace tg
