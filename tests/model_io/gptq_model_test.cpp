#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "base/progress.h"
#include "model_io/artifact_files.h"
#include "tests/model/fixtures.h"

namespace tg {
namespace {

// All matrices have more than 65,536 elements.
ModelConfig config() {
  auto config = test::tiny_speedrun();
  config.vocab_size = 300;
  config.model_dim = 272;
  config.num_heads = config.num_kv_heads = 4;
  return config;
}

// One Hessian per block for all matrices of as many columns.
Hessians shared_hessians(const ParameterTable& table) {
  Hessians hessians;
  std::map<std::pair<std::int64_t, std::int64_t>, at::Tensor> of_block;
  for (const auto& part : unbanked(table)) {
    if (part.value.dim() != 2 || part.value.numel() <= kMaxUnquantized) continue;
    const auto columns = part.value.size(1);
    auto& hessian = of_block[{part.block, columns}];
    if (!hessian.defined()) hessian = at::eye(columns);
    hessians.emplace(part.name, hessian);
  }
  return hessians;
}

TEST(GptqModel, NeedsNoHessianLongerThanItsMatrices) {
  const auto table = test::random_parameters(config(), at::kFloat, 1);
  auto hessians = shared_hessians(table);
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::map<const void*, Weak> all;
  for (const auto& [name, hessian] : hessians)
    all.emplace(hessian.unsafeGetTensorImpl(), Weak(hessian.getIntrusivePtr()));
  std::vector<std::int64_t> held;  // after each matrix
  const ProgressListener listener([&](std::int64_t) {
    held.push_back(
        std::ranges::count_if(all, [](const auto& entry) { return !entry.second.expired(); }));
  });
  const auto matrices = std::ssize(hessians);
  quantize_by_gptq(table, std::move(hessians), {});
  EXPECT_EQ(std::ssize(held), matrices);
  EXPECT_GT(matrices, std::ssize(all)) << "some matrices share one";
  EXPECT_TRUE(std::ranges::is_sorted(held, std::greater()));
  EXPECT_EQ(held.front(), std::ssize(all) - 1);
  EXPECT_EQ(held.back(), 0);
}

TEST(GptqModel, SaysHowManyInputsWereNeverExcited) {
  const auto table = test::random_parameters(config(), at::kFloat, 1);
  const auto warning_of = [&](auto... quirks) {
    auto hessians = shared_hessians(table);
    hessians.begin()->second[3][3] = 0;
    testing::internal::CaptureStderr();
    quantize_by_gptq(table, std::move(hessians), {}, quirks...);
    return testing::internal::GetCapturedStderr();
  };
  const auto warning = warning_of();
  EXPECT_NE(warning.find("are 0 on every calibration row (blocks.0.attn.c_"), warning.npos)
      << warning;
  EXPECT_NE(warning.find(": 1 of 272)"), warning.npos) << warning;
  EXPECT_NE(warning.find("each is rounded by itself"), warning.npos) << warning;
  EXPECT_NE(warning_of(true).find("they become 0"), warning.npos);
}

}  // namespace
}  // namespace tg
