#include "ops/loss/masked_nll.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ops/loss/softcap_cross_entropy.h"
#include "tests/ops/tensors.h"
#include "weights/safetensors/safetensors.h"

namespace tg {
namespace {

const Softcap softcap{11.5, 5, 15};

// The same formula in fp64, for each row and column.
at::Tensor by_hand(const at::Tensor& logits, const at::Tensor& inputs, const at::Tensor& targets,
                   const at::Tensor& mask, std::int64_t vocab) {
  std::vector<double> nll;
  const auto bytes = mask.accessor<std::uint8_t, 2>();
  for (std::int64_t n = 0; n < logits.size(0); ++n) {
    const auto s_of = [&](std::int64_t c) {
      const auto row = inputs[n].item<std::int64_t>();
      if ((bytes[row][c / 8] >> c % 8 & 1) != 0) return -71.5;
      const double z = logits[n][c].item<double>();
      return softcap.cap * std::tanh((z + softcap.shift) / softcap.temperature);
    };
    double total = 0;
    for (std::int64_t c = 0; c < vocab; ++c) total += std::exp(s_of(c));
    nll.push_back(std::log(total) - s_of(targets[n].item<std::int64_t>()));
  }
  return test::tensor_of(nll, {logits.size(0)});
}

at::Tensor random_mask(std::int64_t vocab, std::uint64_t seed) {
  return test::integers({vocab, (vocab + 7) / 8}, 256, seed).to(at::kByte);
}

TEST(MaskedNll, EqualsTheFormula) {
  constexpr std::int64_t kVocab = 21, kWidth = 24;  // a last byte of 5 bits, and padded columns
  const auto logits = test::normal({40, kWidth}, 1) * 20;
  const auto inputs = test::integers({40}, kVocab, 2), targets = test::integers({40}, kVocab, 3);
  const auto mask = random_mask(kVocab, 4);
  const auto expected = by_hand(logits, inputs, targets, mask, kVocab);
  EXPECT_GT(expected.max().item<double>(), 60);  // masked targets
  EXPECT_LT(expected.min().item<double>(), 10);
  const auto nll_of = [&](at::ScalarType dtype) {
    return masked_softcap_nll(logits.to(dtype), inputs, targets, mask, softcap, kVocab);
  };
  EXPECT_TRUE(test::is_close(nll_of(at::kDouble), expected, 1e-12, 1e-12));
  EXPECT_TRUE(test::is_close(nll_of(at::kFloat), expected, 1e-6, 1e-5));
  EXPECT_EQ(nll_of(at::kBFloat16).scalar_type(), at::kFloat);
}

TEST(MaskedNll, OfAnEmptyMaskIsThatWithoutIt) {
  const auto logits = test::normal({6, 16}, 1) * 20;
  const auto inputs = test::integers({6}, 16, 2), targets = test::integers({6}, 16, 3);
  const auto mask = at::zeros({16, 2}, at::kByte);
  EXPECT_TRUE(test::is_close(masked_softcap_nll(logits, inputs, targets, mask, softcap),
                             softcap_nll(logits, targets, softcap), 1e-14, 1e-14));
}

TEST(MaskedNll, LeavesTheLogitsAlone) {
  const auto logits = test::normal({6, 16}, 1) * 20, before = logits.clone();
  const auto ids = test::integers({6}, 16, 2);
  masked_softcap_nll(logits, ids, ids, random_mask(16, 3), softcap);
  EXPECT_TRUE(test::is_same(logits, before));
}

// The script's validation, with a masked target and rows without a mask.
TEST(MaskedNll, IsThatOfRecord91) {
  const auto loaded = load_safetensors(TEST_DATA_DIR "/record_91_mask.safetensors");
  const std::map<std::string, at::Tensor> reference(loaded.begin(), loaded.end());
  const auto of = [&](const char* name) { return reference.at(std::string("mask.") + name); };
  EXPECT_TRUE(
      test::is_close(masked_softcap_nll(of("z"), of("previous"), of("target"), of("table"), softcap)
                         .to(at::kDouble),
                     of("nll").to(at::kDouble), 2e-7, 1e-6));
}

}  // namespace
}  // namespace tg
