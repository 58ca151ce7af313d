#include <gtest/gtest.h>

#include "train/run_parts.h"

namespace tg {
namespace {

std::vector<std::string> padded_names(const ModelConfig& model, const Padding& padding) {
  std::vector<std::string> names;
  for (const auto& size : padded_sizes(model, padding)) names.push_back(size.name);
  return names;
}

TEST(PaddedSizes, AreThoseThatDifferFromTheSettings) {
  ModelConfig model;
  const Padding on_gpu{.vocab = 64, .channels = 8};
  EXPECT_TRUE(padded_sizes(model, on_gpu).empty());
  model.vocab_size = 50257;
  model.model_dim = 770;
  model.num_heads = model.num_kv_heads = 7;
  EXPECT_EQ(padded_names(model, on_gpu),
            (std::vector<std::string>{"vocab", "model_dim", "head_dim", "mlp"}));
  EXPECT_EQ(padded_sizes(model, on_gpu).front().size, 50257);
  EXPECT_EQ(padded_sizes(model, on_gpu).front().padded, 50304);
  EXPECT_TRUE(padded_sizes(model, {}).empty());
}

}  // namespace
}  // namespace tg
