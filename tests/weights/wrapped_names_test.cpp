#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "weights/foreign_weights.h"

namespace tg::test {
namespace {

using Names = std::vector<std::string>;

// The names without their wrappers, and what was taken off.
std::pair<Names, Names> unwrapped(const Names& names) {
  NamedTensors tensors;
  for (const auto& name : names) tensors.emplace_back(name, at::ones({1}));
  const auto taken_off = unwrap_names(tensors, "w.pt");
  Names bare;
  for (const auto& [name, tensor] : tensors) bare.push_back(name);
  return {bare, taken_off};
}

TEST(UnwrapNames, TakesOffWhatWrappersAdd) {
  const Names bare{"qo_bank", "blocks.0.attn.q_gain"};
  const std::pair<Names, Names> cases[] = {
      {bare, {}},
      {{"_orig_mod.qo_bank", "_orig_mod.blocks.0.attn.q_gain"}, {"_orig_mod."}},
      {{"module.qo_bank", "module.blocks.0.attn.q_gain"}, {"module."}},
      {{"module._orig_mod.qo_bank", "module._orig_mod.blocks.0.attn.q_gain"},
       {"module.", "_orig_mod."}},
      {{"_orig_mod.module.qo_bank", "_orig_mod.module.blocks.0.attn.q_gain"},
       {"_orig_mod.", "module."}},
      {{"_orig_mod._orig_mod.qo_bank", "blocks.0.attn.q_gain"}, {"_orig_mod."}},
      // Blocks that are compiled one by one.
      {{"qo_bank", "blocks.0._orig_mod.attn.q_gain"}, {"_orig_mod."}},
      {{"model.qo_bank", "model.blocks.0.attn.q_gain"}, {"model."}},
      {{"module.model.qo_bank", "_orig_mod.model.blocks.0.attn.q_gain"},
       {"module.", "model.", "_orig_mod."}},
  };
  for (const auto& [names, taken_off] : cases)
    EXPECT_EQ(unwrapped(names), std::pair(bare, taken_off)) << names[0];
}

TEST(UnwrapNames, LeavesNamesThatOnlyLookSo) {
  const Names names{"module", "a.model.b", "modules.a", "x_orig_mod.a", "a._orig_mod", "model"};
  EXPECT_EQ(unwrapped(names), std::pair(names, Names()));
}

TEST(UnwrapNames, RefusesTwoWeightsOfOneName) {
  expect_error(
      [] {
        unwrapped({"a", "b", "module.a"});
      },
      ExitCode::bad_data, "w.pt: has the weight 'a' twice, as 'a' and as 'module.a'");
}

}  // namespace
}  // namespace tg::test
