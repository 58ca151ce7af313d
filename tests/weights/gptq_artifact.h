#pragma once
// Tensors of every kind that an artifact of GPTQ has, and how a broken one is refused.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/files/testing.h"
#include "weights/artifact/read_artifact.h"
#include "weights/artifact/write_artifact.h"

namespace tg::test {

inline constexpr int64_t kPlenty = 1'000'000;

inline at::Tensor levels(at::IntArrayRef shape, int64_t least, int64_t most) {
  return at::randint(least, most + 1, shape, at::kChar);
}
inline at::Tensor scales(at::IntArrayRef shape) {
  return (at::rand(shape) + 0.1).to(at::kHalf);
}

enum class Correction { none, symmetric, asymmetric };

inline GptqWeight gptq_weight(int64_t rows, int64_t columns, int64_t bits = 6,
                              Correction correction = Correction::none) {
  const int64_t most = (1 << (bits - 1)) - 1;
  GptqWeight weight{{levels({rows, columns}, -most, most), scales({rows})}, bits, {}};
  if (correction == Correction::symmetric)
    weight.correction = {false,
                         {levels({rows, 4}, -7, 7), scales({rows})},
                         {levels({4, columns}, -7, 7), scales({4})}};
  if (correction == Correction::asymmetric)
    weight.correction = {true,
                         {levels({rows, 4}, -2, 1), scales({})},
                         {levels({4, columns}, -8, 7), scales({columns / 4})}};
  return weight;
}

// In no order. Of layers without attention, or with other shapes; more than nine layers; matrices
// of no group, one whose name only ends as a group's; tensors of every kind.
inline const std::vector<GptqTensor>& tensors() {
  static const std::vector<GptqTensor> all = [] {
    at::manual_seed(1);
    std::vector<GptqTensor> made;
    for (const int layer : {10, 0, 2}) {
      const auto add = [&](const char* name, auto stored) {
        made.push_back({fmt::format("blocks.{}.{}", layer, name), std::move(stored)});
      };
      add("mlp.fc.weight", gptq_weight(layer == 2 ? 30 : 40, 16));
      add("mlp.proj.weight", gptq_weight(16, 40, 6, Correction::symmetric));
      add("attn_scale", at::rand({16}));
      if (layer == 2) continue;
      add("attn.c_q.weight", gptq_weight(16, 16, 6, Correction::asymmetric));
      add("attn.c_k.weight", gptq_weight(8, 16));
      add("attn.c_v.weight", gptq_weight(8, 16, 4, Correction::asymmetric));
      add("attn.proj.weight", gptq_weight(16, 16));
      add("attn.attn_gate_w", QuantizedWeight{levels({4, 12}, -127, 127), scales({4})});
    }
    made.push_back({"tok_emb.weight", gptq_weight(60, 16, 7, Correction::asymmetric)});
    made.push_back({"lm_head.weight", gptq_weight(60, 16, 8)});
    made.push_back({"bigram.embed.weight", gptq_weight(50, 8, 2)});
    made.push_back({"ve_shared.attn.c_k.weight", gptq_weight(5, 7)});
    made.push_back({"blocks.0.more.attn.c_k.weight", gptq_weight(5, 7)});
    made.push_back({"smear_lambda", at::rand({})});
    return made;
  }();
  return all;
}

// Header of a file of these bytes, from its name on.
inline std::string refusal_of(const std::string& bytes, int64_t max_elements = kPlenty) {
  const TempDir folder;
  write_file(folder / "f.ptz", bytes);
  const auto message =
      error_of(ExitCode::bad_data, [&] { read_artifact(folder / "f.ptz", max_elements); });
  const auto at = message.find("f.ptz: ");
  EXPECT_NE(at, std::string::npos) << message;
  return message.substr(std::min(at, message.size()));
}

}  // namespace tg::test
