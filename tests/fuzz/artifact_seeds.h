#pragma once
// What an artifact of each format holds before it is packed.
#include <ATen/ATen.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/weights/zip_testing.h"
#include "weights/pickle/pickle.h"
#include "weights/pickle/pickle_value.h"

namespace tg::fuzz {

inline std::vector<CraftedRecord> storages_of(const PickleDict& value) {
  std::vector<CraftedRecord> records;
  for (const at::Tensor& storage : write_pickle(value).storages)
    records.push_back({.name = "a/data/" + std::to_string(records.size()),
                       .bytes = {static_cast<const char*>(storage.const_data_ptr()),
                                 static_cast<size_t>(storage.nbytes())}});
  return records;
}

// The archive of that pickle and these storages.
inline std::string archive_of(std::string_view pickle, std::vector<CraftedRecord> storages) {
  storages.insert(storages.begin(), {.name = "a/data.pkl", .bytes = std::string(pickle)});
  return crafted_zip(storages);
}

inline PickleDict int6_value() {
  PickleDict weights, metadata, type, all;
  type.add("type", "int6");
  weights.add("a.q", at::ones({2, 3}, at::kChar));
  weights.add("a.scale", at::ones({2}, at::kHalf));
  weights.add("b", at::ones({3}, at::kHalf));
  metadata.add("a", type);
  metadata.add("b", "passthrough");
  all.add("w", weights);
  all.add("m", metadata);
  return all;
}

inline PickleDict int8_value() {
  PickleDict quantized, scales, passthrough, all;
  quantized.add("a", at::ones({2, 3}, at::kChar));
  scales.add("a", at::ones({2}, at::kHalf));
  quantized.add("s", at::ones({2, 3, 2}, at::kChar));
  scales.add("s", at::ones({}, at::kFloat));
  passthrough.add("b", at::ones({3}, at::kHalf));
  all.add("__quant_format__", "int8_clean_per_row_v1");
  all.add("quantized", quantized);
  all.add("scales", scales);
  all.add("dtypes", PickleDict());
  all.add("passthrough", passthrough);
  return all;
}

// With a matrix of each correction, in groups and in none, and a gate.
inline PickleDict gptq_value() {
  PickleDict weights, metadata, all;
  const auto add = [&](const std::string& name, const char* kind, int64_t rows) {
    weights.add(name + ".q", at::ones({rows, 3}, at::kChar));
    weights.add(name + ".scale", at::ones({rows}, at::kHalf));
    metadata.add(name, kind);
  };
  add("tok_emb.weight", "gptq (int7)+lqer_asym", 4);
  weights.add("tok_emb.weight.lqA_a", at::ones({4, 2}, at::kChar));
  weights.add("tok_emb.weight.lqAs_a", at::ones({}, at::kHalf));
  weights.add("tok_emb.weight.lqB_a", at::ones({2, 3}, at::kChar));
  weights.add("tok_emb.weight.lqBs_a", at::ones({3}, at::kHalf));
  add("blocks.0.mlp.proj.weight", "gptq (int6)", 2);
  add("blocks.1.mlp.fc.weight", "gptq (int6)", 2);
  add("lm_head.weight", "gptq (int6)+lqer", 2);
  weights.add("lm_head.weight.lqA", at::ones({2, 1}, at::kChar));
  weights.add("lm_head.weight.lqAs", at::ones({2}, at::kHalf));
  weights.add("lm_head.weight.lqB", at::ones({1, 3}, at::kChar));
  weights.add("lm_head.weight.lqBs", at::ones({1}, at::kHalf));
  weights.add("gate.gq", at::ones({2, 3}, at::kChar));
  weights.add("gate.gs", at::ones({2}, at::kHalf));
  metadata.add("gate", "gate_int8_row");
  weights.add("b", at::ones({3}, at::kHalf));
  metadata.add("b", "passthrough (float16)");
  all.add("w", weights);
  all.add("m", metadata);
  return all;
}

}  // namespace tg::fuzz
