#include <fmt/format.h>

#include <map>
#include <tuple>

#include "tests/weights/tensor_testing.h"
#include "weights/foreign_weights.h"

namespace tg::test {
namespace {

TEST(ScriptNames, BecomeOursAndMissingLambdasChangeNothing) {
  NamedTensors tensors{{"transformer.wte.weight", at::zeros({5, 4})},
                       {"lm_head.weight", at::zeros({5, 4})}};
  for (const char* part : {"attn.c_q", "attn.c_k", "attn.c_v", "attn.c_proj"})
    tensors.emplace_back(fmt::format("transformer.h.0.{}.weight", part), at::zeros({4, 4}));
  tensors.emplace_back("transformer.h.0.mlp.c_fc.weight", at::zeros({16, 4}));
  tensors.emplace_back("transformer.h.0.mlp.c_proj.weight", at::zeros({4, 16}));
  tensors.emplace_back("transformer.h.0.attn.rotary.inv_freq", at::zeros({2}));
  auto with_lambdas = tensors;
  with_lambdas.emplace_back("transformer.h.0.attn.lamb", at::full({}, 0.25));
  with_lambdas.emplace_back("transformer.h.0.lambdas", at::full({2}, 0.75));

  const auto sizes = script_model(tensors);
  ASSERT_TRUE(sizes);
  EXPECT_EQ(std::tuple(sizes->layers, sizes->channels, sizes->hidden, sizes->vocabulary),
            std::tuple(1, 4, 16, 5));
  const std::vector<std::string> ours = {"tok_emb.weight",           "lm_head.weight",
                                         "blocks.0.attn.c_q.weight", "blocks.0.attn.c_k.weight",
                                         "blocks.0.attn.c_v.weight", "blocks.0.attn.proj.weight",
                                         "blocks.0.mlp.fc.weight",   "blocks.0.mlp.proj.weight"};
  for (auto* model : {&tensors, &with_lambdas}) {
    ASSERT_TRUE(rename_script_weights(*model));
    std::map<std::string, at::Tensor> found(model->begin(), model->end());
    EXPECT_EQ(found.size(), ours.size() + 2);
    for (const auto& name : ours) EXPECT_TRUE(found.contains(name)) << name;
    const bool given = model == &with_lambdas;
    EXPECT_EQ(found.at("blocks.0.attn.value_blend").item<double>(), given ? 0.25 : 0);
    EXPECT_EQ(found.at("blocks.0.resid_mix")[0].item<double>(), given ? 0.75 : 1);
    EXPECT_EQ(found.at("blocks.0.resid_mix")[1].item<double>(), given ? 0.75 : 0);
  }
  EXPECT_FALSE(rename_script_weights(tensors));
}

}  // namespace
}  // namespace tg::test
